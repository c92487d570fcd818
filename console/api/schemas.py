"""What the routes of the API share: dependencies, how bodies are parsed, and request and response models."""

from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from fastapi import Depends, HTTPException, Path, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, create_model

from console.context import ConsoleContext, context_of, token_of
from console.problems import BODY_SHAPES
from mayfly import json_text
from mayfly.admin.audit import HTTP, Actor
from mayfly.admin.auth import Token
from mayfly.admin.filters import MAX_ID
from mayfly.admin.jobs import CappedCount
from mayfly.schema.tables import KEY_LENGTH, NAME_LENGTH

MAX_JOBS = 1000  # in one request
ONE, MANY = BODY_SHAPES

bearer = HTTPBearer(auto_error=False, description="A token made by `mayfly token create`.")


def actor_of(request: Request) -> Actor:
    """Manual actions are recorded under the name of the token."""
    return Actor(token_of(request).name, HTTP)


Context = Annotated[ConsoleContext, Depends(context_of)]
RequestToken = Annotated[Token, Depends(token_of)]
TokenActor = Annotated[Actor, Depends(actor_of)]
JobId = Annotated[int, Path(ge=1, le=MAX_ID)]


def requires(scope: str) -> Any:
    """A dependency of every route that needs a scope."""

    def check(token: RequestToken, _documented: Annotated[Any, Security(bearer)] = None) -> None:
        if scope not in token.scopes:
            raise HTTPException(403, f"The token {token.name} lacks the scope {scope!r}: create one that has it.")

    return Depends(check)


class JsonRequest(Request):
    """Bodies that cannot be parsed, or are nested too deep, are errors of the client."""

    async def json(self) -> Any:
        body = await self.body()
        try:
            return json_text.decode_bounded(body.decode("utf-8"))
        except ValueError as error:
            raise HTTPException(422, f"The body is not valid JSON: {error}.") from error


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handle


def _timestamp(given: object) -> object:
    """pydantic alone would read numbers, and strings of digits, as seconds since 1970."""
    try:
        return datetime.fromisoformat(given if isinstance(given, str) else "")
    except ValueError as error:
        raise ValueError("must be a time with its zone, such as 2026-05-04T12:00:00Z") from error


def _bounded(minimum: int, maximum: int, text: bool = True) -> Any:
    """Documented here, checked by enqueue(), which explains the rule."""
    names = ("minLength", "maxLength") if text else ("minimum", "maximum")
    return Field(json_schema_extra=dict(zip(names, (minimum, maximum), strict=True)))


Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp), Field(strict=False)]
JobName = Annotated[str, _bounded(1, NAME_LENGTH)]
JobKey = Annotated[str, _bounded(1, KEY_LENGTH)]
Number = Annotated[float, Field(allow_inf_nan=False)]


def clamp(given: float, minimum: float, maximum: float) -> float:
    return max(minimum, min(maximum, given))


class RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class ReasonRequest(RequestBody):
    reason: str | None = None


class NewJobRequest(RequestBody):
    """The arguments of `mayfly.enqueue`."""

    type: JobName
    payload: dict[str, Any] = {}
    lane: JobName | None = None
    run_at: Timestamp | None = None
    delay: Number | None = None
    priority: Annotated[int, _bounded(0, 2, text=False)] | None = None
    unique_key: JobKey | None = None
    unique: str | Number | None = None
    on_conflict: Literal["keep", "replace", "error"] | None = None
    group_key: JobKey | None = None
    max_attempts: Annotated[int, _bounded(1, 1000, text=False)] | None = None
    expires_at: Timestamp | None = None
    expires_in: Number | None = None

    def arguments(self) -> dict[str, Any]:
        return {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}


NewJobs = Annotated[
    Annotated[NewJobRequest, Tag(ONE)]
    | Annotated[list[NewJobRequest], Field(min_length=1, max_length=MAX_JOBS), Tag(MANY)],
    Discriminator(lambda given: MANY if isinstance(given, list) else ONE),
]


class Enqueued(BaseModel):
    """One id per job, in the order of the request: its own, or that of the job that holds its unique key."""

    ids: list[int]


@cache
def model_of(view: type[Any]) -> type[BaseModel]:
    """The response model of a view's `facts()`, which adds `NAME_is_capped` to capped counts. Views may be nested."""
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
    return hint


def list_of(name: str, view: Any) -> type[BaseModel]:
    """An object with the list under a name, so that further fields can be added later."""
    fields: dict[str, Any] = {name: (GenericAlias(list, (model_of(view),)), ...)}
    return create_model(f"{view.__name__}s", **fields)
