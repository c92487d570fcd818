"""A form made from the schema of a payload, and the payload made from what was filled in. Pure."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web.filters import read_later
from console.web.page import Here, Operator, actor_of, now_of, redirect, render
from mayfly import json_text
from mayfly.admin.audit import Actor, AuditEntry
from mayfly.client import admit
from mayfly.db.connection import Connection
from mayfly.errors import BadField, UsageError
from mayfly.queue.insert import insert_job
from mayfly.registry import Handler

PREFIX = "payload."  # of the names in the form
PLAIN = ("string", "integer", "number", "boolean")


class Input(NamedTuple):
    name: str
    kind: str  # string, integer, number, boolean, choice, json
    label: str
    help: str
    is_required: bool
    value: str
    choices: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        return f"{PREFIX}{self.name}"


def inputs_of(schema: Mapping[str, Any], given: Mapping[str, str]) -> list[Input]:
    """With what was given before, or else the defaults."""
    required = set(schema.get("required", ()))
    found = []
    for name, told in schema.get("properties", {}).items():
        part = _resolved(schema, told)
        kind, choices = _kind(part)
        default = "" if "default" not in told or told["default"] is None else _as_text(told["default"], kind)
        found.append(
            Input(
                name,
                kind,
                str(told.get("title") or part.get("title") or name),
                _help(told, part),
                name in required,
                given.get(f"{PREFIX}{name}", default),
                choices,
            )
        )
    return found


def payload_of(inputs: list[Input]) -> dict[str, Any]:
    """What is empty and need not be there is left out: the handler's model has a default for it."""
    payload = {}
    for each in inputs:
        if each.value.strip() or (each.is_required and each.kind == "string"):
            payload[each.name] = _read(each)
    return payload


def _read(given: Input) -> Any:
    text = given.value if given.kind == "string" else given.value.strip()
    if given.kind == "string":
        return text
    if given.kind == "choice":
        return json.loads(text)
    try:
        value = json_text.decode_bounded(text)
    except ValueError:
        value = text  # the model says what is wrong with it
    if given.kind == "json" and isinstance(value, str) and not text.startswith('"'):
        raise BadField(given.name, text, 'JSON, such as [1, 2] or {"a": 1}')
    return value


def _resolved(schema: Mapping[str, Any], told: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference refers to; of something or nothing, the something."""
    options = [each for each in told.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1:
        told = options[0]
    if len(told.get("allOf", ())) == 1:
        told = told["allOf"][0]
    name = str(told.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = schema.get("$defs", {}).get(name, told)
    return found


def _kind(part: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    if "enum" in part:
        return "choice", tuple(json.dumps(each, ensure_ascii=False) for each in part["enum"])
    kind = part.get("type")
    return (kind, ()) if kind in PLAIN else ("json", ())


def _as_text(value: Any, kind: str) -> str:
    return value if kind == "string" and isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _help(told: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    words = [str(told.get("description") or part.get("description") or "")]
    names = {"minimum": "at least", "maximum": "at most", "minLength": "at least", "maxLength": "at most"}
    words += [
        f"{said} {part[key]}{' characters' if 'Length' in key else ''}" for key, said in names.items() if key in part
    ]
    words += [str(part["format"])] if "format" in part else []
    return ", ".join(each for each in words if each)


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


def _form(request: Request, site: ConsoleContext, name: str, given: Mapping[str, str], wrong: str | None) -> Response:
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


def _enqueue(site: ConsoleContext, name: str, given: Mapping[str, str], actor: Actor) -> int:
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
    deed = AuditEntry(actor, "enqueue", name, now)

    def insert(connection: Connection) -> int:
        deed.add(connection, 1)
        return insert_job(connection, new, now)

    return site.database.run(insert, twice=False)


def _json(text: str) -> Any:
    try:
        return json_text.decode_bounded(text.strip() or "{}")
    except ValueError as error:
        raise BadField("payload", text, f"a JSON object: {error}") from error
