"""Enqueue a job with a form that is built from the JSON schema of its payload."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web.filters import parse_future
from console.web.page import Context, Operator, redirect, render
from mayfly import json_text
from mayfly.admin.auth import Actor, AuditEntry
from mayfly.client import current_app, validate_job
from mayfly.db.connection import Connection
from mayfly.errors import BadField, UsageError
from mayfly.monitoring.redact import Redactor
from mayfly.queue.insert import insert_job
from mayfly.registry import Handler

router = APIRouter()

PREFIX = "payload."  # of the names of form fields
SCALARS = ("string", "integer", "number", "boolean")
BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
}
PICKED = {"date": "date", "date-time": "datetime"}  # kinds of inputs with a picker, by the format of the schema
LOCAL_TIME = re.compile(r"[0-9-]{10}T[0-9:.]+")  # without a zone, as a picker sends it
TEXT_OPTIONS = ("lane", "unique_key", "group_key")


class FormInput(NamedTuple):
    name: str
    kind: str  # string, integer, number, boolean, choice, json, date, datetime
    label: str
    help: str
    is_required: bool
    value: str
    choices: tuple[str, ...] = ()
    is_secret: bool = False  # its name is in REDACT: the page never shows its value

    @property
    def field(self) -> str:
        return f"{PREFIX}{self.name}"


@router.get("/enqueue")
async def show(request: Request, context: Context, _user: Operator, type: str = "") -> Response:
    return _form(request, context, type, request.query_params, None)


@router.post("/enqueue")
async def enqueue(request: Request, context: Context, user: Operator) -> Response:
    given = {name: str(value) for name, value in (await request.form()).items()}
    name = given.get("type", "").strip()
    try:
        job_id = await context.run(_enqueue, context, name, given, user)
    except UsageError as refused:
        return _form(request, context, name, given, str(refused))
    context.long_poll.nudge()
    return redirect(request, f"/jobs/{job_id}", f"Enqueued job {job_id}.")


def _form(
    request: Request, context: ConsoleContext, name: str, given: Mapping[str, str], error: str | None
) -> Response:
    handler = context.registry.get(name)
    return render(
        request, "enqueue.html", 422 if error else 200, types=sorted(context.registry.handlers), type=name,
        handler=handler, inputs=_inputs(context, handler, given), given=given, error=error,
    )  # fmt: skip


def _inputs(context: ConsoleContext, handler: Handler | None, given: Mapping[str, str]) -> list[FormInput] | None:
    """None for a handler without a schema: its payload is entered as JSON."""
    if handler is None or not hasattr(handler.model, "model_json_schema"):
        return None
    return inputs_of(cast(Any, handler.model).model_json_schema(), given, context.settings.redact)


def _enqueue(context: ConsoleContext, name: str, given: Mapping[str, str], actor: Actor) -> int:
    if not name:
        raise BadField("type", name, "the type of a job")
    inputs, now = _inputs(context, context.registry.get(name), given), context.now()
    payload = _json(given.get("payload", "")) if inputs is None else payload_of(inputs)
    options: dict[str, Any] = {each: given[each].strip() for each in TEXT_OPTIONS if given.get(each, "").strip()}
    if given.get("priority", "") in ("0", "1", "2"):
        options["priority"] = int(given["priority"])
    run_at = parse_future("run_at", given.get("run_at", "").strip(), now)
    if run_at is not None:
        options["run_at"] = run_at
    new = validate_job(None, type=name, payload=payload, **options)
    entry = AuditEntry(actor, "enqueue", name, now)

    def insert(connection: Connection) -> int:
        entry.add(connection, 1)
        return insert_job(connection, new, now)

    job_id = context.database.run(insert, repeatable=False)
    current_app().wake_up(new, job_id)
    return job_id


def _json(text: str) -> Any:
    try:
        return json_text.decode_bounded(text.strip() or "{}")
    except ValueError as error:
        raise BadField("payload", text, f"a JSON object: {error}") from error


def inputs_of(schema: Mapping[str, Any], given: Mapping[str, str], redacted: Sequence[str] = ()) -> list[FormInput]:
    """The inputs with the submitted values, or with the defaults."""
    required, redactor = set(schema.get("required", ())), Redactor(redacted)
    found = []
    for name, spec in schema.get("properties", {}).items():
        part = _resolved(schema, spec)
        kind, choices = _kind(part)
        default = "" if spec.get("default") is None else _as_text(spec["default"], kind)
        # Not the title of the referenced model, which is the name of a class.
        label = str(spec.get("title") or name.replace("_", " ").title())
        value = given.get(f"{PREFIX}{name}", default)
        is_secret = redactor.is_secret(name)
        found.append(FormInput(name, kind, label, _help(spec, part), name in required, value, choices, is_secret))
    return found


def payload_of(inputs: list[FormInput]) -> dict[str, Any]:
    """Skip empty optional fields: the handler's model has defaults for them."""
    payload = {}
    for each in inputs:
        if each.value.strip() or (each.is_required and each.kind == "string"):
            payload[each.name] = _read(each)
    return payload


def _read(given: FormInput) -> Any:
    text = given.value if given.kind == "string" else given.value.strip()
    if given.kind in ("string", "date"):
        return text
    if given.kind == "datetime":
        return f"{text}Z" if LOCAL_TIME.fullmatch(text) else text
    if given.kind == "choice":
        return json.loads(text)
    try:
        value = json_text.decode_bounded(text)
    except ValueError:
        value = text  # the handler's model reports the error
    if given.kind == "json" and isinstance(value, str) and not text.startswith('"'):
        raise BadField(given.name, text, 'JSON, such as [1, 2] or {"a": 1}')
    return value


def _resolved(schema: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve a reference; for `X | None`, return X."""
    options = [each for each in spec.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1:
        spec = options[0]
    if len(spec.get("allOf", ())) == 1:
        spec = spec["allOf"][0]
    name = str(spec.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = schema.get("$defs", {}).get(name, spec)
    return found


def _kind(part: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    if "enum" in part:
        return "choice", tuple(json.dumps(each, ensure_ascii=False) for each in part["enum"])
    kind = part.get("type")
    if kind == "string" and part.get("format") in PICKED:
        return PICKED[part["format"]], ()
    return (kind, ()) if kind in SCALARS else ("json", ())


def _as_text(value: Any, kind: str) -> str:
    if kind == "datetime":
        return _picked(value)
    return value if kind in ("string", "date") and isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _picked(value: Any) -> str:
    """A time as a date-time picker has it: in UTC, without a zone."""
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return ""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() if at.tzinfo else value


def _help(spec: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    words = [spec.get("description") or part.get("description")]
    words += [text.format(part[key]) for key, text in BOUNDS.items() if key in part]
    words += [part.get("format")] if part.get("format") not in PICKED else []
    return ", ".join(str(each) for each in words if each)
