"""Shared by the routes of the API: dependencies, body parsing, request and response models."""

import re
from collections.abc import Callable, Coroutine, Iterable
from functools import cache
from types import GenericAlias, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from fastapi import Depends, HTTPException, Path, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, create_model

from console.context import ConsoleContext, context_of, token_of
from console.problems import BODY_SHAPES, described
from mayfly import json_text
from mayfly.admin.auth import HTTP, Actor, Token
from mayfly.admin.filters import MAX_ID
from mayfly.admin.jobs import CappedCount
from mayfly.format import parse_time
from mayfly.queue.outcome import MAX_WAIT_SECONDS
from mayfly.schema.tables import HIGH, KEY_LENGTH, LOW, NAME_LENGTH

MAX_JOBS = 1000  # in one request
MAX_ID_IN_BODY = 9 * 10**18  # nearly MAX_ID: the document has bounds as floats, which round that to a larger one
STORABLE, NOT_BLANK = r"^[^\u0000]*$", r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
ONE, MANY = BODY_SHAPES

bearer = HTTPBearer(auto_error=False, description="A token created by `mayfly token create`.")


def actor_of(request: Request) -> Actor:
    """Manual actions are recorded under the name of the token."""
    return Actor(token_of(request).name, HTTP)


Context = Annotated[ConsoleContext, Depends(context_of)]
RequestToken = Annotated[Token, Depends(token_of)]
TokenActor = Annotated[Actor, Depends(actor_of)]
JobId = Annotated[int, Path(ge=1, le=MAX_ID)]


def requires(scope: str) -> Any:
    """The dependency of routes that need a scope."""

    def check(token: RequestToken, _documented: Annotated[Any, Security(bearer)] = None) -> None:
        if scope not in token.scopes:
            raise HTTPException(403, f"The token {token.name} lacks the scope {scope!r}: create a token with it.")

    return Depends(check)


class JsonRequest(Request):
    """Responds with 422 to a body that cannot be parsed or is nested too deep."""

    async def json(self) -> Any:
        body = await self.body()
        try:
            return json_text.decode_bounded(body.decode("utf-8"))
        except ValueError as error:
            raise HTTPException(422, f"The body is not valid JSON: {error}.") from error


class JsonRoute(APIRoute):
    """Responds with 415 to a body that is not declared as JSON, and documents that."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.body_field is not None:
            self.responses = {**self.responses, **described(415)}

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler, takes_body = super().get_route_handler(), self.body_field is not None

        async def handle(request: Request) -> Response:
            parsed = JsonRequest(request.scope, request.receive)
            if takes_body and not is_json(request.headers.get("content-type", "")) and await parsed.body():
                raise HTTPException(415, "Send the body as JSON, with the header `Content-Type: application/json`.")
            return await handler(parsed)

        return handle


def is_json(content_type: str) -> bool:
    """application/json, with any parameters, or a type derived from it, such as application/problem+json."""
    name = content_type.partition(";")[0].strip().lower()
    return re.fullmatch(r"application/([\w.-]+\+)?json", name, re.ASCII) is not None


def _timestamp(given: object) -> object:
    """pydantic alone would accept numbers and strings of digits as seconds since 1970."""
    return parse_time(given if isinstance(given, str) else "")


def _integer(given: object) -> object:
    """In JSON Schema 3.0 is an integer too."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


def documented(**bounds: Any) -> Any:
    """Only documents the bounds; the function that is called checks them, with a better message."""
    return Field(json_schema_extra=bounds)


Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp), Field(strict=False)]
Integer = Annotated[int, BeforeValidator(_integer)]
IdInBody = Annotated[int, Field(ge=1, le=MAX_ID_IN_BODY), BeforeValidator(_integer)]
StorableText = Annotated[str, documented(pattern=STORABLE)]
JobName = Annotated[str, documented(minLength=1, maxLength=NAME_LENGTH, pattern=NOT_BLANK)]
JobKey = Annotated[str, documented(minLength=1, maxLength=KEY_LENGTH, pattern=STORABLE)]
SearchText = Annotated[str, documented(minLength=1, pattern=STORABLE)]
PayloadField = Annotated[
    str, documented(pattern=r"^[^.=\u0000]+(\.[^.=\u0000]+)*=[^\u0000]*$", examples=["order.id=7"])
]
Number = Annotated[float, Field(allow_inf_nan=False)]
Delay = Annotated[Number, documented(minimum=-MAX_WAIT_SECONDS, maximum=MAX_WAIT_SECONDS)]
Lifetime = Annotated[Number, documented(minimum=0.000001, maximum=MAX_WAIT_SECONDS)]
UniqueScope = Annotated[
    str, documented(pattern=r"^(until done|while pending|for [0-9]{1,9}(\.[0-9]{1,9})? ?[smhd])$")
]


def one_of(values: Iterable[str]) -> Any:
    return documented(enum=[*values])


def clamp(given: float, minimum: float, maximum: float) -> float:
    return max(minimum, min(maximum, given))


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class NewJobRequest(RequestBody):
    """The arguments of `mayfly.enqueue`."""

    type: JobName
    payload: dict[str, Any] = {}
    lane: JobName | None = None
    run_at: Timestamp | None = None
    delay: Delay | None = None
    priority: Annotated[Integer, documented(minimum=HIGH, maximum=LOW)] | None = None
    unique_key: JobKey | None = None
    unique: UniqueScope | Lifetime | None = None
    on_conflict: Literal["keep", "replace", "error"] | None = None
    group_key: JobKey | None = None
    max_attempts: Annotated[Integer, documented(minimum=1, maximum=1000)] | None = None
    expires_at: Timestamp | None = None
    expires_in: Lifetime | None = None

    def arguments(self) -> dict[str, Any]:
        return {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}


NewJobs = Annotated[
    Annotated[NewJobRequest, Tag(ONE)]
    | Annotated[list[NewJobRequest], Field(min_length=1, max_length=MAX_JOBS), Tag(MANY)],
    Discriminator(lambda given: MANY if isinstance(given, list) else ONE),
]


class Enqueued(BaseModel):
    """One id per job, in the order of the request: of the new job, or of the job that holds its unique key."""

    ids: list[int]


@cache
def model_of(view: type[Any]) -> type[BaseModel]:
    """The response model of `facts_of(view)`, which adds `NAME_is_capped` to capped counts. Views may be nested."""
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(view).items():
        if hint is CappedCount:
            fields |= {name: (int, ...), f"{name}_is_capped": (bool, ...)}
        else:
            fields[name] = (_field_type(hint), ...)
    return create_model(view.__name__, **fields)


def _field_type(hint: Any) -> Any:
    members = get_args(hint)
    if get_origin(hint) is tuple and hasattr(members[0], "_fields"):
        return GenericAlias(list, (model_of(members[0]),))
    views = [each for each in members if hasattr(each, "_fields")]
    return model_of(views[0]) | None if views and NoneType in members else hint


def list_of(name: str, view: Any) -> type[BaseModel]:
    """The response model of a list: an object with one field, so that others can be added later."""
    fields: dict[str, Any] = {name: (GenericAlias(list, (model_of(view),)), ...)}
    return create_model(f"{view.__name__}s", **fields)
