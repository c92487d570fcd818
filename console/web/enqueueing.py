"""A form that enqueues a job, made from its payload's schema."""

from collections.abc import Mapping
from typing import Any, cast

from fastapi import APIRouter, Request, Response

from console.site import Site
from console.web.filters import read_later
from console.web.form import Input, inputs_of, payload_of
from console.web.page import Here, Operator, actor_of, now_of, redirect, render
from mayfly import jsontext
from mayfly.actor import Actor
from mayfly.app import admit
from mayfly.connection import Connection
from mayfly.errors import BadField, UsageError
from mayfly.jobs.audit import Deed
from mayfly.jobs.enqueue import insert_job
from mayfly.registry import Handler
from mayfly.schema import JOBS

router = APIRouter()

TEXTS = ("lane", "unique_key", "group_key")


@router.get("/enqueue")
async def show(request: Request, site: Here, _person: Operator, type: str = "") -> Response:
    return _form(request, site, type, request.query_params, None)


@router.post("/enqueue")
async def enqueue(request: Request, site: Here, person: Operator) -> Response:
    given = {name: str(value) for name, value in (await request.form()).items()}
    name = given.get("type", "").strip()
    try:
        job_id = await site.run(_enqueue, site, name, given, actor_of(person))
    except UsageError as error:
        return _form(request, site, name, given, str(error))
    site.watch.nudge()
    return redirect(request, f"/jobs/{job_id}", f"Enqueued the job {job_id}.")


def _form(request: Request, site: Site, name: str, given: Mapping[str, str], wrong: str | None) -> Response:
    handler = site.producer.registry.get(name)
    return render(
        request, "enqueue.html", 422 if wrong else 200, types=sorted(site.producer.registry.handlers), type=name,
        handler=handler, inputs=_inputs(handler, given), given=given, wrong=wrong,
    )  # fmt: skip


def _inputs(handler: Handler | None, given: Mapping[str, str]) -> list[Input] | None:
    """None where there is no schema: then it is JSON."""
    if handler is None or not hasattr(handler.model, "model_json_schema"):
        return None
    return inputs_of(cast(Any, handler.model).model_json_schema(), given)


def _enqueue(site: Site, name: str, given: Mapping[str, str], actor: Actor) -> int:
    if not name:
        raise BadField("type", name, "the type of a job")
    inputs, now = _inputs(site.producer.registry.get(name), given), now_of(site)
    payload = _json(given.get("payload", "")) if inputs is None else payload_of(inputs)
    options: dict[str, Any] = {each: given[each].strip() for each in TEXTS if given.get(each, "").strip()}
    if given.get("priority", "") in ("0", "1", "2"):
        options["priority"] = int(given["priority"])
    run_at = read_later("run_at", given.get("run_at", "").strip(), now)
    if run_at is not None:
        options["run_at"] = run_at
    new = admit(None, type=name, payload=payload, **options)
    deed = Deed(actor, "enqueue", name, now)

    def insert(connection: Connection) -> int:
        deed.add(connection, 1)
        return insert_job(connection, JOBS, new, now)

    return site.database.run(insert, twice=False)


def _json(text: str) -> Any:
    try:
        return jsontext.decode_bounded(text.strip() or "{}")
    except ValueError as error:
        raise BadField("payload", text, f"a JSON object: {error}") from error
