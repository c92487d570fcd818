"""Say what should have been enqueued; a failed assertion lists what was."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mayfly import json_text
from mayfly.testing.database import EnqueuedJob, enqueued_jobs

LISTED = 20
MAX_PAYLOAD_SHOWN = 200  # characters


def assert_enqueued(
    type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    count: int | None = None,
    lane: str | None = None,
    status: str | None = None,
    priority: int | None = None,
    run_at: datetime | None = None,
    unique_key: str | None = None,
    group_key: str | None = None,
) -> list[EnqueuedJob]:
    """Jobs of this type whose payload has at least these fields, with these values; those that fit.

    One or more are expected, or exactly `count`, which may be 0. What was drained in the meantime counts too, unless
    `status="pending"` is asked for.
    """
    __tracebackhide__ = True
    columns = {"lane": lane, "status": status, "priority": priority, "run_at": run_at, "unique_key": unique_key,
               "group_key": group_key}  # fmt: skip
    asked = {name: value for name, value in columns.items() if value is not None}
    enqueued = enqueued_jobs()
    found = [each for each in enqueued if each.type == type and _fits(each, payload or {}, asked)]
    if len(found) == count or (count is None and found):
        return found
    raise AssertionError(_message(_wanted(type, payload, asked), count, len(found), enqueued))


def contains(actual: object, expected: object) -> bool:
    """Of an object as many fields as are asked for, and so on within; everything else as it is."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(name in actual and contains(actual[name], value) for name, value in expected.items())
    if isinstance(expected, list | tuple) and isinstance(actual, list):
        pairs = zip(actual, expected, strict=False)
        return len(actual) == len(expected) and all(contains(each, value) for each, value in pairs)
    return bool(actual == expected)


def _fits(job: EnqueuedJob, payload: Mapping[str, Any], columns: Mapping[str, Any]) -> bool:
    return contains(job.payload, payload) and all(getattr(job, name) == value for name, value in columns.items())


def _wanted(type: str, payload: Mapping[str, Any] | None, columns: Mapping[str, Any]) -> str:
    told = [f"payload {_shown(payload)}"] if payload else []
    told += [f"{name}={value}" for name, value in columns.items()]
    return f"of type {type!r}" + (f" with {' and '.join(told)}" if told else "")


def _message(wanted: str, count: int | None, found: int, enqueued: Sequence[EnqueuedJob]) -> str:
    many = {0: "No job {} was", 1: "One job {} was"}.get(found, f"{found} jobs {{}} were").format(wanted)
    instead = "" if count is None else f", not {count}"
    return f"{many} enqueued{instead}.\n{_listed(enqueued)}"


def _listed(enqueued: Sequence[EnqueuedJob]) -> str:
    if not enqueued:
        return "Nothing at all was enqueued."
    lines = ["Enqueued were:", *(f"  {_line(each)}" for each in enqueued[:LISTED])]
    if len(enqueued) > LISTED:
        lines.append(f"  and {len(enqueued) - LISTED} more")
    return "\n".join(lines)


def _line(job: EnqueuedJob) -> str:
    keys = "".join(f" {name}={getattr(job, name)}" for name in ("unique_key", "group_key") if getattr(job, name))
    return f"{job.id} {job.type} {_shown(job.payload)} lane={job.lane}{keys} {job.status}, due {job.run_at:%F %T}"


def _shown(payload: Mapping[str, Any]) -> str:
    try:
        text = json_text.encode(dict(payload))
    except (TypeError, ValueError):  # a matcher, such as unittest.mock.ANY
        text = repr(payload)
    return text if len(text) <= MAX_PAYLOAD_SHOWN else f"{text[:MAX_PAYLOAD_SHOWN]}…"
