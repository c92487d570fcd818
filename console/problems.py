"""Error responses: problem details (RFC 9457) from the API, error pages from the console."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from console.context import context_of
from mayfly import errors, log_messages
from mayfly.errors import MayflyError

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER = {"Retry-After": "5"}  # seconds, while the database is unavailable
BODY_SHAPES = ("one job", "many jobs")  # the tags of a body that may be either

# Sent instead of the text of a database error, which names servers and users and is only logged.
DATABASE_UNAVAILABLE = "The database is unavailable. Try again later; /health shows when it is back."
COMMIT_UNKNOWN = (
    "The database connection was lost before the commit was confirmed: the jobs may or may not be enqueued. "
    "With an Idempotency-Key or unique keys it is safe to repeat the request; otherwise check first."
)
DATABASE_UNAVAILABLE_PAGE = "The database is unavailable. No jobs are lost. This page reloads automatically."
COMMIT_UNKNOWN_PAGE = (
    "The database connection was lost before the commit was confirmed. Check the result before you repeat the action."
)
INTERNAL_ERROR = "This is a bug in Mayfly; the log of the console has the details."


# The default code of each status. Codes are part of the API; titles and details may change. The title is the code in
# words.
CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "content_too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    429: "rate_limited",
    500: "internal_error",
    503: "database_unavailable",
}

# More specific codes by error. The first matching class decides.
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


class WrongField(BaseModel):
    field: str
    message: str


class ProblemDetails(BaseModel):
    """What went wrong and what to do about it. Programs should check `code` or `status`; the texts may change."""

    title: str
    status: int
    code: Annotated[str, Field(examples=["unknown_job"])]
    detail: str
    errors: list[WrongField] = []


def schemas() -> dict[str, Any]:
    """The problem details as components of the OpenAPI document."""
    schema = ProblemDetails.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the OpenAPI document: these statuses, and those that any request may return."""
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": title_of(status), "content": content}
        for status in sorted({*statuses, 401, 403, 429, 503})
    }


def title_of(status: int) -> str:
    return CODES.get(status, "error").replace("_", " ").capitalize()


def json_problem(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    code: str | None = None,
    wrong: Sequence[WrongField] = (),
) -> JSONResponse:
    code = code or CODES.get(status, "error")
    details = ProblemDetails(title=title_of(status), status=status, code=code, detail=detail, errors=list(wrong))
    return JSONResponse(details.model_dump(), status, headers, media_type=PROBLEM_TYPE)


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
        """Never quotes the value: it may be a secret."""
        wrong = [WrongField(field=_field(each["loc"]), message=each["msg"]) for each in error.errors()]
        detail = "; ".join(f"{each.field}: {each.message}" for each in wrong)
        return respond(request, json_problem(422, detail, wrong=wrong), detail)

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        detail = str(error.detail)
        return respond(request, json_problem(error.status_code, detail, error.headers), detail)

    @app.exception_handler(Exception)
    async def on_bug(request: Request, _error: Exception) -> Response:
        return respond(request, json_problem(500, INTERNAL_ERROR), INTERNAL_ERROR)


def _mayfly_problem(request: Request, error: MayflyError) -> JSONResponse:
    status, code = next((status, code) for kind, status, code in ERRORS if isinstance(error, kind))
    if isinstance(error, errors.DatabaseError):
        log = context_of(request).log
        log.write(log_messages.request_failed(request.method, request.url.path, str(error)))
        detail = COMMIT_UNKNOWN if isinstance(error, errors.CommitUnknown) else DATABASE_UNAVAILABLE
        return json_problem(status, detail, RETRY_AFTER, code)
    fields: Sequence[str] = getattr(error, "fields", ())
    wrong = [WrongField(field=each, message=str(error)) for each in fields]
    return json_problem(status, str(error), code=code, wrong=wrong)


def _page_text(error: MayflyError) -> str:
    if isinstance(error, errors.CommitUnknown):
        return COMMIT_UNKNOWN_PAGE
    return DATABASE_UNAVAILABLE_PAGE if isinstance(error, errors.DatabaseError) else str(error)


def _field(location: Sequence[str | int]) -> str:
    """The path of a field, without the source (body, query) and the tag of the body, unless there is nothing else."""
    inner = [each for each in location[1:] if each not in BODY_SHAPES]
    return ".".join(map(str, inner or location[:1]))
