"""Error responses: problem details (RFC 9457) for programs, an error page for people."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from console.context import context_of
from mayfly import errors, log_messages
from mayfly.errors import MayflyError

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER = {"Retry-After": "5"}  # seconds, while the database is unavailable
BODY_SHAPES = ("one job", "many jobs")  # of a body that may be either

# These replace the text of a database error, which names servers and users: that goes to the log.
DATABASE_UNAVAILABLE = "The database is unavailable. Try again later; /health shows when it is back."
COMMIT_UNKNOWN = (
    "The connection to the database was lost before it confirmed that the jobs are enqueued. Check before you "
    "enqueue them again; with an Idempotency-Key or unique keys it is safe to repeat the request."
)
DATABASE_UNAVAILABLE_PAGE = "The database is unavailable. Nothing is lost; this page reloads by itself."
COMMIT_UNKNOWN_PAGE = (
    "The connection to the database was lost before it confirmed the action. Check its result before you repeat it."
)
INTERNAL_ERROR = "This is a bug in Mayfly; the log of the console has the details."


class ProblemTitle(NamedTuple):
    title: str
    code: str  # for programs: it stays, whatever becomes of the texts


KINDS = {
    400: ProblemTitle("Bad request", "bad_request"),
    401: ProblemTitle("Unauthorized", "unauthorized"),
    403: ProblemTitle("Forbidden", "forbidden"),
    404: ProblemTitle("Not found", "not_found"),
    405: ProblemTitle("Method not allowed", "method_not_allowed"),
    409: ProblemTitle("Conflict", "conflict"),
    413: ProblemTitle("Content too large", "content_too_large"),
    422: ProblemTitle("Invalid request", "invalid_request"),
    429: ProblemTitle("Too many requests", "rate_limited"),
    500: ProblemTitle("Internal error", "internal_error"),
    503: ProblemTitle("Database unavailable", "database_unavailable"),
}
UNKNOWN_KIND = ProblemTitle("Error", "error")

# The first class that fits decides.
ERRORS: Sequence[tuple[type[MayflyError], int, str]] = (
    (errors.CommitUnknown, 503, "commit_unknown"),
    (errors.DatabaseError, 503, "database_unavailable"),
    (errors.PayloadTooLarge, 413, "payload_too_large"),
    (errors.ResultTooLarge, 413, "result_too_large"),
    (errors.KeyHeld, 409, "unique_key_held"),
    (errors.StaleClaim, 409, "stale_claim"),
    (errors.NothingToDo, 409, "nothing_to_do"),
    (errors.UnknownJob, 404, "unknown_job"),
    (errors.KeyReused, 422, "idempotency_key_reused"),
    (errors.NotExternal, 422, "lane_not_external"),
    (errors.UsageError, 422, "invalid_request"),
    (MayflyError, 500, "internal_error"),
)


class RequestRefused(Exception):
    """Raised by AuthMiddleware, outside of FastAPI's exception handlers."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.detail = detail
        self.headers = headers or {}


class WrongField(BaseModel):
    field: str
    message: str


class ProblemDetails(BaseModel):
    """What went wrong and what to do about it. Programs should decide by `code`, or by the status."""

    title: str
    status: int
    code: str
    detail: str
    errors: list[WrongField] = []


def schemas() -> dict[str, Any]:
    """For the components of the OpenAPI document."""
    schema = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document: these statuses, and those that every request may get."""
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": KINDS[status].title, "content": content}
        for status in sorted({*statuses, 401, 403, 429, 503})
    }


def title_of(status: int) -> str:
    return KINDS.get(status, UNKNOWN_KIND).title


def json_problem(
    status: int,
    detail: str,
    code: str | None = None,
    wrong: Sequence[WrongField] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    title, usual_code = KINDS.get(status, UNKNOWN_KIND)
    details = ProblemDetails(title=title, status=status, code=code or usual_code, detail=detail, errors=list(wrong))
    return JSONResponse(jsonable_encoder(details), status, headers, media_type=PROBLEM_TYPE)


ErrorPage = Callable[[Request, int, str, Mapping[str, str]], Response]


def install(app: FastAPI, error_page: ErrorPage | None = None) -> None:
    """Without `error_page` every error is JSON."""

    def respond(request: Request, problem: JSONResponse, text: str) -> Response:
        if error_page is None or not request.state.is_page:
            return problem
        headers = {name: value for name, value in problem.headers.items() if not name.startswith("content-")}
        return error_page(request, problem.status_code, text, headers)

    @app.exception_handler(MayflyError)
    async def on_mayfly_error(request: Request, error: MayflyError) -> Response:
        return respond(request, _mayfly_problem(request, error), _page_text(error))

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(request: Request, error: RequestValidationError) -> Response:
        """Never with the value itself: it may be a secret."""
        wrong = [WrongField(field=_field(each["loc"]), message=each["msg"]) for each in error.errors()]
        detail = "; ".join(f"{each.field}: {each.message}" for each in wrong)
        return respond(request, json_problem(422, detail, wrong=wrong), detail)

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        detail = str(error.detail)
        return respond(request, json_problem(error.status_code, detail, headers=error.headers), detail)

    @app.exception_handler(Exception)
    async def on_bug(request: Request, _error: Exception) -> Response:
        return respond(request, json_problem(500, INTERNAL_ERROR), INTERNAL_ERROR)


def _mayfly_problem(request: Request, error: MayflyError) -> JSONResponse:
    status, code = next((status, code) for kind, status, code in ERRORS if isinstance(error, kind))
    if isinstance(error, errors.DatabaseError):
        log = context_of(request).log
        log.say(log_messages.request_failed(request.method, request.url.path, str(error)))
        detail = COMMIT_UNKNOWN if isinstance(error, errors.CommitUnknown) else DATABASE_UNAVAILABLE
        return json_problem(status, detail, code, headers=RETRY_AFTER)
    fields: Sequence[str] = getattr(error, "fields", ())
    return json_problem(status, str(error), code, [WrongField(field=each, message=str(error)) for each in fields])


def _page_text(error: MayflyError) -> str:
    if isinstance(error, errors.CommitUnknown):
        return COMMIT_UNKNOWN_PAGE
    return DATABASE_UNAVAILABLE_PAGE if isinstance(error, errors.DatabaseError) else str(error)


def _field(location: Sequence[str | int]) -> str:
    """Without the source (body, query) and without the shape of the body, unless there is nothing else."""
    inner = [each for each in location[1:] if each not in BODY_SHAPES]
    return ".".join(map(str, inner or location[:1]))
