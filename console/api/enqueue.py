"""`POST /enqueue`: one job or many, all of them or none."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Header, Request, Response

from console.api import idempotency
from console.api.schemas import Asker, Enqueued, Here, JsonRoute, NewJobRequest, NewJobs, needs
from console.context import ConsoleContext
from console.problems import described
from mayfly.admin.auth import ENQUEUE
from mayfly.client import admit
from mayfly.db.connection import Connection
from mayfly.errors import EnqueueError
from mayfly.queue.insert import NewJob as Admitted
from mayfly.queue.insert import insert_job
from mayfly.queue.options import ERROR
from mayfly.schema.tables import KEY_LENGTH

router = APIRouter(route_class=JsonRoute, tags=["enqueue"])

Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=KEY_LENGTH, pattern=r"^[!-~]+$")]


@router.post(
    "/enqueue",
    status_code=201,
    dependencies=[needs(ENQUEUE)],
    responses={200: {"model": Enqueued, "description": "Known by its Idempotency-Key"}, **described(409, 413, 422)},
)
async def enqueue(
    request: Request, response: Response, site: Here, token: Asker, new: Annotated[NewJobs, Body()], key: Key = None
) -> Enqueued:
    """Enqueue a job, or a list of up to 1,000 in one transaction.

    With an `Idempotency-Key` the same request, sent again within a day, gets the first one's answer and does nothing.
    """
    body = await request.body()
    ids, is_new = await site.run(_enqueue, site, token.name, new, key, body)
    site.watch.nudge()
    response.status_code = 201 if is_new else 200
    return Enqueued(ids=ids)


def _enqueue(
    site: ConsoleContext, token_name: str, given: NewJobRequest | list[NewJobRequest], key: str | None, body: bytes
) -> tuple[list[int], bool]:
    admitted = _admit_all(given) if isinstance(given, list) else [admit(None, **given.given())]
    database = site.database
    now = database.clock.now()

    def insert(connection: Connection) -> list[int]:
        return [insert_job(connection, each, now) for each in admitted]

    if key is None:
        return database.run(insert, twice=_bears_repeating(admitted)), True
    request = idempotency.idempotent_request(token_name, key, body, now)
    return database.run(lambda connection: idempotency.run_once(connection, request, insert))


def _admit_all(given: Sequence[NewJobRequest]) -> list[Admitted]:
    """Whatever is wrong is told with the number of its job."""
    found = []
    for number, each in enumerate(given):
        try:
            found.append(admit(None, **each.given()))
        except EnqueueError as error:
            error.fields = tuple(f"{number}.{field}" for field in error.fields)
            raise
    return found


def _bears_repeating(admitted: Sequence[Admitted]) -> bool:
    """Whether a COMMIT whose answer was lost may simply be done again."""
    return all(each.unique_key is not None and each.on_conflict != ERROR for each in admitted)
