"""Chat completions as OpenAI made them and many offer: one question, one answer in one piece.

No stream is asked for: nobody watches a job type, and half an answer is of no use. Who streams all the same, or
breaks off, has given no completion, and the job is tried again.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from handlers.outside import Answer, Outside
from mayfly import Dead, Retry, setting

USUAL_SECONDS = "30"
MOST_SECONDS = 3600.0
USUAL_URL = "https://api.openai.com/v1"
Message = dict[str, str]


class Completion(NamedTuple):
    text: str
    input_tokens: int | None
    output_tokens: int | None


class _Said(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Said


Tokens = Annotated[int, Field(ge=0, lt=1 << 31)]  # of a server whose word it is


class _Usage(BaseModel):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


class _Envelope(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None


def open_provider(key: str) -> Outside:
    try:
        seconds = float(setting("OPENAI_SECONDS", USUAL_SECONDS))
    except ValueError:
        seconds = 0
    if not 0 < seconds <= MOST_SECONDS:
        raise Dead("OPENAI_SECONDS must be how long an answer may take, such as 30")
    headers = {"Authorization": f"Bearer {key}"}
    return Outside(setting("OPENAI_URL", USUAL_URL), headers=headers, answer_seconds=seconds)


def complete(provider: Outside, model: str, messages: Sequence[Message], answer_tokens: int) -> Completion:
    asked = {
        "model": model,
        "messages": list(messages),
        "max_tokens": answer_tokens,
        "response_format": {"type": "json_object"},
        "stream": False,
    }
    return read_completion(provider.post("/chat/completions", asked))


def read_completion(answer: Answer) -> Completion:
    try:
        envelope = _Envelope.model_validate_json(answer.body)
    except ValidationError:
        raise Retry(f"{answer.who} gave something that is no completion, with {answer.status}") from None
    usage = envelope.usage or _Usage()
    return Completion(envelope.choices[0].message.content or "", usage.prompt_tokens, usage.completion_tokens)
