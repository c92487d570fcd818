"""`POST /enqueue`: one job, or many in one transaction. With an idempotency key it is safe to repeat the request."""

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Body, Header, Request, Response

from console.api.schemas import Context, Enqueued, JsonRoute, NewJobRequest, NewJobs, RequestToken, requires
from console.problems import described
from mayfly import json_text
from mayfly.admin.auth import ENQUEUE
from mayfly.client import current_app, validate_job
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import EnqueueError, KeyReused
from mayfly.queue.insert import ERROR, NewJob, insert_job
from mayfly.schema.tables import KEY_LENGTH

router = APIRouter(route_class=JsonRoute, tags=["enqueue"])

IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", min_length=1, max_length=KEY_LENGTH, pattern=r"^[!-~]+$")
]
REPEATED = {"model": Enqueued, "description": "Repeated request: the response to the first one"}

WHICH = "token_name = :token_name AND idempotency_key = :idempotency_key"
KNOWN = f"SELECT body_hash, answer FROM mayfly_requests WHERE {WHICH}"
ANSWER = f"UPDATE mayfly_requests SET answer = :answer WHERE {WHICH}"


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
    now = context.database.clock.now()
    repeatable = None if key is None else IdempotentRequest.of(token.name, key, await request.body(), now)
    ids, is_new = await context.run(_enqueue, context.database, new, repeatable, now)
    context.long_poll.nudge()
    response.status_code = 201 if is_new else 200
    return Enqueued(ids=ids)


class IdempotentRequest(NamedTuple):
    """Its response is committed together with its effect, and returned when the request is repeated."""

    token_name: str
    idempotency_key: str
    body_hash: str
    created_at: datetime

    @classmethod
    def of(cls, token_name: str, key: str, body: bytes, now: datetime) -> "IdempotentRequest":
        return cls(token_name, key, sha256(body).hexdigest(), now)

    def run_once(self, connection: Connection, work: Callable[[Connection], Any]) -> tuple[Any, bool]:
        """Return the result of `work`, and whether it is new.

        A repeated request waits at the INSERT while the first one is in progress.
        """
        key = {"token_name": self.token_name, "idempotency_key": self.idempotency_key}
        insert = connection.dialect.insert_missing("mayfly_requests", (*key,), self._fields)
        if connection.execute(insert, self._asdict()).rowcount:
            answer = work(connection)
            connection.execute(ANSWER, {**key, "answer": json_text.encode(answer)})
            return answer, True
        found = connection.execute(KNOWN, key).first()
        if found is None:  # a day old: pruned between the two statements
            return self.run_once(connection, work)
        if found[0] != self.body_hash:
            raise KeyReused(self.idempotency_key)
        return json_text.decode(found[1]), False


def _enqueue(
    database: Database, given: NewJobRequest | list[NewJobRequest], request: IdempotentRequest | None, now: datetime
) -> tuple[list[int], bool]:
    jobs = _validate_all(given) if isinstance(given, list) else [validate_job(None, **given.arguments())]

    def insert(connection: Connection) -> list[int]:
        return [insert_job(connection, each, now) for each in jobs]

    if request is None:
        answer = database.run(insert, repeatable=_is_repeatable(jobs)), True
    else:
        answer = database.run(lambda connection: request.run_once(connection, insert))
    current_app().wake_up_all(jobs)
    return answer


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
