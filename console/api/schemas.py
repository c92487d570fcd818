"""What a route needs of a token, and how bodies are read."""

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
from console.problems import SHAPES
from mayfly import json_text
from mayfly.admin import CappedCount
from mayfly.admin.auth import Token
from mayfly.admin.filters import MAX_ID
from mayfly.schema.tables import KEY_LENGTH, NAME_LENGTH

bearer = HTTPBearer(auto_error=False, description="A token made by `mayfly token create`.")

Here = Annotated[ConsoleContext, Depends(context_of)]
Asker = Annotated[Token, Depends(token_of)]


def needs(scope: str) -> Any:
    """A dependency of every route that is not for all tokens."""

    def check(token: Asker, _documented: Annotated[Any, Security(bearer)] = None) -> None:
        if scope not in token.scopes:
            raise HTTPException(403, f"The token {token.name} has not the scope {scope!r}: make one that has.")

    return Depends(check)


class JsonRequest(Request):
    """Whatever cannot be read is the sender's mistake, and is told as one."""

    async def json(self) -> Any:
        body = await self.body()
        try:
            return json_text.decode_bounded(body.decode("utf-8"))
        except ValueError as error:
            raise HTTPException(422, f"The body is no JSON that can be read: {error}.") from error


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def read(request: Request) -> Response:
            return await answer(JsonRequest(request.scope, request.receive))

        return read


MAX_JOBS = 1000
JobId = Annotated[int, Path(ge=1, le=MAX_ID)]
ONE, MANY = SHAPES


def _timestamp(given: object) -> object:
    """pydantic would take numbers, and texts of numbers, for seconds since 1970."""
    try:
        return datetime.fromisoformat(given if isinstance(given, str) else "")
    except ValueError as error:
        raise ValueError("must be a time with its zone, such as 2026-05-04T12:00:00Z") from error


def _bounded(least: int, most: int, text: bool = True) -> Any:
    """Described, not checked: that is for the door all jobs pass, which has the words for it."""
    names = ("minLength", "maxLength") if text else ("minimum", "maximum")
    return Field(json_schema_extra=dict(zip(names, (least, most), strict=True)))


Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp), Field(strict=False)]
Name = Annotated[str, _bounded(1, NAME_LENGTH)]
Key = Annotated[str, _bounded(1, KEY_LENGTH)]
Number = Annotated[float, Field(allow_inf_nan=False)]


def clamp(given: float, least: float, most: float) -> float:
    return max(least, min(most, given))


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class NewJobRequest(Body):
    """The arguments of `mayfly.enqueue`."""

    type: Name
    payload: dict[str, Any] = {}
    lane: Name | None = None
    run_at: Timestamp | None = None
    delay: Number | None = None
    priority: Annotated[int, _bounded(0, 2, text=False)] | None = None
    unique_key: Key | None = None
    unique: str | Number | None = None
    on_conflict: Literal["keep", "replace", "error"] | None = None
    group_key: Key | None = None
    max_attempts: Annotated[int, _bounded(1, 1000, text=False)] | None = None
    expires_at: Timestamp | None = None
    expires_in: Number | None = None

    def given(self) -> dict[str, Any]:
        return {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}


NewJobs = Annotated[
    Annotated[NewJobRequest, Tag(ONE)]
    | Annotated[list[NewJobRequest], Field(min_length=1, max_length=MAX_JOBS), Tag(MANY)],
    Discriminator(lambda given: MANY if isinstance(given, list) else ONE),
]


class Enqueued(BaseModel):
    """Of each job, in the order in which they were given: its id, or that of the job which holds its unique key."""

    ids: list[int]


@cache
def model_of(view: type[Any]) -> type[BaseModel]:
    """The shape of a view's `facts()`: a capped number is followed by whether it is; views may hold others."""
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(view).items():
        if hint is CappedCount:
            fields |= {name: (int, ...), f"{name}_is_capped": (bool, ...)}
        else:
            fields[name] = (_described(hint), ...)
    return create_model(view.__name__, **fields)


def _described(hint: Any) -> Any:
    members = get_args(hint)
    if get_origin(hint) is tuple and hasattr(members[0], "_fields"):
        return GenericAlias(list, (model_of(members[0]),))
    return hint


def list_of(name: str, view: Any) -> type[BaseModel]:
    """An object with the list under a name, so that something may be added beside it."""
    fields: dict[str, Any] = {name: (GenericAlias(list, (model_of(view),)), ...)}
    return create_model(f"{view.__name__}s", **fields)
