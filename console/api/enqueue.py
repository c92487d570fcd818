"""`POST /enqueue`: one job, or many in one transaction."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Header, Request, Response

from console.api import idempotency
from console.api.schemas import Context, Enqueued, JsonRoute, NewJobRequest, NewJobs, RequestToken, requires
from console.context import ConsoleContext
from console.problems import described
from mayfly.admin.auth import ENQUEUE
from mayfly.client import validate_job
from mayfly.db.connection import Connection
from mayfly.errors import EnqueueError
from mayfly.queue.insert import ERROR, NewJob, insert_job
from mayfly.schema.tables import KEY_LENGTH

router = APIRouter(route_class=JsonRoute, tags=["enqueue"])

IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", min_length=1, max_length=KEY_LENGTH, pattern=r"^[!-~]+$")
]
REPEATED = {"model": Enqueued, "description": "Repeated: the Idempotency-Key is known"}


@router.post(
    "/enqueue",
    status_code=201,
    dependencies=[requires(ENQUEUE)],
    responses={200: REPEATED, **described(409, 413, 422)},
)
async def enqueue(
    request: Request,
    response: Response,
    context: Context,
    token: RequestToken,
    new: Annotated[NewJobs, Body()],
    key: IdempotencyKey = None,
) -> Enqueued:
    """Enqueue a job, or a list of up to 1,000 in one transaction.

    With an `Idempotency-Key`, the same request sent again within a day gets the first response and enqueues nothing.
    """
    body = await request.body()
    ids, is_new = await context.run(_enqueue, context, token.name, new, key, body)
    context.long_poll.nudge()
    response.status_code = 201 if is_new else 200
    return Enqueued(ids=ids)


def _enqueue(
    context: ConsoleContext, token_name: str, given: NewJobRequest | list[NewJobRequest], key: str | None, body: bytes
) -> tuple[list[int], bool]:
    jobs = _validate_all(given) if isinstance(given, list) else [validate_job(None, **given.arguments())]
    database = context.database
    now = database.clock.now()

    def insert(connection: Connection) -> list[int]:
        return [insert_job(connection, each, now) for each in jobs]

    if key is None:
        return database.run(insert, twice=_is_repeatable(jobs)), True
    request = idempotency.idempotent_request(token_name, key, body, now)
    return database.run(lambda connection: idempotency.run_once(connection, request, insert))


def _validate_all(given: Sequence[NewJobRequest]) -> list[NewJob]:
    """Errors name the job by its position in the list: `1.payload.width`."""
    jobs = []
    for number, each in enumerate(given):
        try:
            jobs.append(validate_job(None, **each.arguments()))
        except EnqueueError as error:
            error.fields = tuple(f"{number}.{field}" for field in error.fields)
            raise
    return jobs


def _is_repeatable(jobs: Sequence[NewJob]) -> bool:
    """Whether the transaction can be run again after a COMMIT whose reply was lost."""
    return all(each.unique_key is not None and each.on_conflict != ERROR for each in jobs)
