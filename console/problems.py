"""Answers that say what is wrong, in one form (RFC 9457), and which of our errors gets which."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from mayfly import errors, log_messages
from mayfly.errors import MayflyError

PROBLEM = "application/problem+json"
DATABASE_AWAY = "The database can't be worked with just now. Try again in a while; /health tells when it is back."
DATABASE_AWAY_UNKNOWN = (
    "The database went away before it said whether the jobs are enqueued. Look before you enqueue them again; with "
    "an Idempotency-Key or unique keys it is safe to ask again."
)
DATABASE_AWAY_PAGE = "The database does not answer just now. Nothing is lost; this page looks again by itself."
UNKNOWN_TO_PAGE = "The database went away before it said whether it was done. Look before you do it again."
MISTAKE = "This is a mistake of Mayfly's; its log has the details."
RETRY_SECONDS = 5
SHAPES = ("one job", "many jobs")  # of a body that may be either

STATUSES: Sequence[tuple[type[MayflyError], int]] = (
    (errors.DatabaseError, 503),
    (errors.PayloadTooLarge, 413),
    (errors.ResultTooLarge, 413),
    (errors.KeyHeld, 409),
    (errors.StaleClaim, 409),
    (errors.NothingToDo, 409),
    (errors.UnknownJob, 404),
    (errors.UsageError, 422),
)
TITLES = {
    400: "Bad request",
    401: "No valid token",
    403: "The token is not for this",
    404: "Not found",
    405: "Not this method",
    409: "It is not as you think",
    413: "Too large",
    422: "Something in the request is wrong",
    429: "Too many requests",
    500: "Mayfly made a mistake",
    503: "The database is away",
}


class RequestRefused(Exception):
    """Somebody who does not get past the door, with the answer that says why."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.detail = detail
        self.headers = headers or {}


class WrongField(BaseModel):
    field: str
    message: str


class ProblemDetails(BaseModel):
    """What went wrong, and what to do about it."""

    title: str
    status: int
    detail: str
    errors: list[WrongField] = []


def schemas() -> dict[str, Any]:
    """Of Problem, and of what is in it."""
    schema = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document: these answers, and those that every request may get."""
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": TITLES[status], "content": content}
        for status in sorted({*statuses, 401, 403, 429, 503})
    }


def problem(
    status: int, detail: str, wrong: Sequence[WrongField] = (), headers: dict[str, str] | None = None
) -> JSONResponse:
    found = ProblemDetails(title=TITLES.get(status, "Refused"), status=status, detail=detail, errors=list(wrong))
    body = jsonable_encoder(found)
    return JSONResponse(body, status, headers, media_type=PROBLEM)


def status_of(error: MayflyError) -> int:
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def of_mayfly(error: MayflyError) -> JSONResponse:
    status = status_of(error)
    if status == 503:  # the sentence names servers and users: it is for the log
        detail = DATABASE_AWAY_UNKNOWN if isinstance(error, errors.CommitUnknown) else DATABASE_AWAY
        return problem(status, detail, headers={"Retry-After": str(RETRY_SECONDS)})
    return problem(status, str(error), [WrongField(field=each, message=str(error)) for each in fields_of(error)])


def fields_of(error: MayflyError) -> Sequence[str]:
    found: Sequence[str] = getattr(error, "fields", ())
    return found


Told = Callable[[Request, int, str, Mapping[str, str]], Response]


def install(app: FastAPI, as_page: Told | None = None) -> None:
    """`as_page` tells people what programs are told in JSON."""

    def told(request: Request, answer: JSONResponse, detail: str) -> Response:
        is_page = as_page is not None and request.state.is_page
        headers = {name: value for name, value in answer.headers.items() if not name.startswith("content-")}
        return as_page(request, answer.status_code, detail, headers) if as_page and is_page else answer

    @app.exception_handler(MayflyError)
    async def mayfly_error(request: Request, error: MayflyError) -> Response:
        if isinstance(error, errors.DatabaseError):
            request.app.state.site.log.say(log_messages.request_failed(request.method, request.url.path, str(error)))
        is_away = isinstance(error, errors.DatabaseError) and not isinstance(error, errors.CommitUnknown)
        detail = DATABASE_AWAY_PAGE if is_away else UNKNOWN_TO_PAGE if status_of(error) == 503 else str(error)
        return told(request, of_mayfly(error), detail)

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, error: RequestValidationError) -> Response:
        """Never the value itself: it may be a secret."""
        wrong = [WrongField(field=_path(each["loc"]), message=each["msg"]) for each in error.errors()]
        detail = "; ".join(f"{each.field}: {each.message}" for each in wrong)
        return told(request, problem(422, detail, wrong), detail)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        detail = str(error.detail)
        return told(request, problem(error.status_code, detail, headers=dict(error.headers or {})), detail)

    @app.exception_handler(Exception)
    async def mistake(request: Request, _error: Exception) -> Response:
        return told(request, problem(500, MISTAKE), MISTAKE)


def _path(location: Sequence[str | int]) -> str:
    """Without where it came from, and without how it was understood, unless that is all there is."""
    inner = [each for each in location[1:] if each not in SHAPES]
    return ".".join(map(str, inner or location[:1]))
