"""Chat completions in the format of OpenAI, which many providers offer.

Not streamed: half an answer is of no use. An answer that is streamed or incomplete is no completion, and the job is
retried.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from handlers.http import HttpClient, HttpResponse
from mayfly import Dead, Retry, setting

USUAL_SECONDS = "30"
MAX_SECONDS = 3600.0
USUAL_URL = "https://api.openai.com/v1"
ChatMessage = dict[str, str]


class Completion(NamedTuple):
    text: str
    input_tokens: int | None
    output_tokens: int | None


class _ChatReply(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _ChatReply


Tokens = Annotated[int, Field(ge=0, lt=1 << 31)]  # as reported by the provider


class _Usage(BaseModel):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


class _Envelope(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None


def open_provider(key: str) -> HttpClient:
    try:
        seconds = float(setting("OPENAI_SECONDS", USUAL_SECONDS))
    except ValueError:
        seconds = 0
    if not 0 < seconds <= MAX_SECONDS:
        raise Dead("OPENAI_SECONDS must be how long an answer may take, such as 30")
    headers = {"Authorization": f"Bearer {key}"}
    return HttpClient(setting("OPENAI_URL", USUAL_URL), headers=headers, answer_seconds=seconds)


def complete(provider: HttpClient, model: str, messages: Sequence[ChatMessage], answer_tokens: int) -> Completion:
    request = {
        "model": model,
        "messages": list(messages),
        "max_tokens": answer_tokens,
        "response_format": {"type": "json_object"},
        "stream": False,
    }
    return read_completion(provider.post("/chat/completions", request))


def read_completion(answer: HttpResponse) -> Completion:
    try:
        envelope = _Envelope.model_validate_json(answer.body)
    except ValidationError:
        raise Retry(f"{answer.host} answered {answer.status} without a completion") from None
    usage = envelope.usage or _Usage()
    return Completion(envelope.choices[0].message.content or "", usage.prompt_tokens, usage.completion_tokens)
