"""Chat completions in OpenAI's format, which many providers offer.

Responses are not streamed: a partial one is useless. The job is retried if the response is incomplete.
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
        raise Dead(f"OPENAI_SECONDS must be a timeout in seconds, up to {MAX_SECONDS:g}, such as 30")
    headers = {"Authorization": f"Bearer {key}"}
    return HttpClient(setting("OPENAI_URL", USUAL_URL), headers=headers, response_seconds=seconds)


def complete(provider: HttpClient, model: str, messages: Sequence[ChatMessage], answer_tokens: int) -> Completion:
    request = {
        "model": model,
        "messages": list(messages),
        "max_tokens": answer_tokens,
        "response_format": {"type": "json_object"},
        "stream": False,
    }
    return read_completion(provider.post("/chat/completions", request))


def read_completion(response: HttpResponse) -> Completion:
    try:
        envelope = _Envelope.model_validate_json(response.body)
    except ValidationError:
        raise Retry(f"{response.host} returned {response.status} without a completion") from None
    usage = envelope.usage or _Usage()
    return Completion(envelope.choices[0].message.content or "", usage.prompt_tokens, usage.completion_tokens)
