"""Jobs in every status, with their failed attempts."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

from sqlalchemy import Connection, insert, select

from mayfly.queue.outcome import Failure
from mayfly.schema.metadata import attempts, batches, jobs
from tests.browser.sample.history import Death

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
NAMES = ("ann", "bob", "chen", "dora", "emil", "fatma", "gus", "hanna", "ivo", "june")
TRACEBACK = """\
{kind}: {message}
  File "/srv/shop/handlers/{module}.py", line {line}, in {function}
    {code}
  File "/srv/shop/vendor/client.py", line 88, in send
    raise {kind}(answer.text)"""
# type, lane, module, line, code, error of dead jobs
CAUSES = (
    ("charge_card", "payments", "payments", 41, "gateway.charge(order.card, order.total)",
     "GatewayTimeout", "no answer from the payment gateway within 20 s"),
    ("send_email", "mail", "mail", 27, "smtp.send(mail)", "MailboxFull", "452 4.2.2 The mailbox is full"),
    ("build_report", "reports", "reports", 63, "rows = totals[report.day]", "KeyError", "'2026-02-30'"),
    ("resize_image", "images", "images", 19, "picture = Image.open(path)", "UnidentifiedImage", "not a picture"),
)  # fmt: skip
DEATHS = (9, 4, 2, 3)  # number of each


def insert_jobs(connection: Connection, now: datetime, rng: Random) -> list[Death]:
    """With a batch of reminders; returns times and types of the dead jobs."""
    rows = [*finished(now, rng), *dead(now, rng), *running(now), *waiting(now, rng)]
    rows.sort(key=lambda row: row["created_at"])
    before = set(connection.execute(select(jobs.c.id)).scalars())
    columns = {name: None for row in rows for name in row if name in jobs.c} | DEFAULTS
    whole = [{name: row.get(name, usual) for name, usual in columns.items()} for row in rows]
    connection.execute(insert(jobs), whole)
    ids = sorted(set(connection.execute(select(jobs.c.id)).scalars()) - before)
    tried = [each for job_id, row in zip(ids, rows, strict=True) for each in failed_attempts(job_id, row)]
    connection.execute(insert(attempts), tried)
    sealed = {"batch_key": "reminders-46", "created_at": now - 3 * MINUTE, "sealed_at": now - 3 * MINUTE}
    unsealed = {"batch_key": "catalogue-import-46", "created_at": now - 130 * MINUTE, "sealed_at": None}
    connection.execute(insert(batches), [sealed, unsealed])
    return [(row["finished_at"], row["lane"], row["type"]) for row in rows if row["status"] == "dead"]


DEFAULTS: dict[str, Any] = {
    "priority": 1, "attempts": 0, "max_attempts": 5, "crashes": 0, "interruptions": 0, "suspect": 0, "claims": 0,
    "releases": 0, "slices": 0, "stalled": 0, "unique_scope": "live", "forgiven": 0,
}  # fmt: skip


def mail(rng: Random, **more: Any) -> str:
    return json.dumps({"to": f"{rng.choice(NAMES)}@example.com", "template": "invoice", **more})


def finished(now: datetime, rng: Random) -> Iterator[dict[str, Any]]:
    for number in range(160):
        at = now - number * 22 * SECOND - 30 * SECOND
        ms = rng.randrange(90, 900)
        yield ended("send_email", "mail", at, "done", ms, mail(rng, order=48_000 - number), '{"message_id": "…"}')
        if number % 4 == 0:
            payload = json.dumps({"image": 7000 + number, "width": 640})
            yield ended("resize_image", "images", at - 4 * SECOND, "done", 3 * ms, payload, '{"height": 480}')
        if number % 9 == 0:
            payload = json.dumps({"order": 48_000 - number})
            yield ended("charge_card", "payments", at - 8 * SECOND, "done", ms, payload, None)
    for number in range(6):
        at = now - (5 + number) * MINUTE
        row = ended("send_digest", "mail", at, "cancelled", 0, json.dumps({"audience": "trial"}), None)
        yield row | {"cancel_reason": "the campaign was withdrawn", "started_at": None, "duration_ms": None}


def ended(
    type_name: str, lane: str, at: datetime, status: str, ms: int, payload: str, result: str | None
) -> dict[str, Any]:
    started_at = at - timedelta(milliseconds=ms)
    return {
        "type": type_name, "lane": lane, "status": status, "payload": payload, "result": result, "attempts": 1,
        "claims": 1, "worker_id": "worker-sample-5", "created_at": started_at - 14 * SECOND,
        "run_at": started_at - 14 * SECOND,
        "locked_at": started_at, "started_at": started_at, "finished_at": at, "duration_ms": ms,
    }  # fmt: skip


def dead(now: datetime, rng: Random) -> Iterator[dict[str, Any]]:
    for (type_name, lane, module, line, code, kind, message), deaths in zip(CAUSES, DEATHS, strict=True):
        text = TRACEBACK.format(
            kind=kind, message=message, module=module, line=line, function=type_name, code=code
        )  # fmt: skip
        for number in range(deaths):
            at = now - (11 + 37 * number + rng.randrange(20)) * MINUTE
            payload = mail(rng) if lane == "mail" else json.dumps({"order": 47_100 + number})
            row = ended(type_name, lane, at, "dead", rng.randrange(300, 20_000), payload, None)
            created_at = at - 31 * MINUTE
            yield row | {"last_error": text, "attempts": 5, "claims": 5, "created_at": created_at}


def running(now: datetime) -> Iterator[dict[str, Any]]:
    for number, (type_name, lane) in enumerate((("import_orders", "imports"), ("build_report", "reports"))):
        started_at = now - (18 + 7 * number) * SECOND
        yield {
            "type": type_name, "lane": lane, "status": "processing", "attempts": 1, "claims": 1,
            "payload": json.dumps({"source": "marketplace"} if number == 0 else {"kind": "daily"}),
            "worker_id": f"worker-sample-{number}", "created_at": started_at - 9 * SECOND, "run_at": started_at,
            "locked_at": started_at, "started_at": started_at, "lease_until": now + 30 * MINUTE,
            "progress": json.dumps({"done": 6200, "total": 10_000, "text": "orders"}) if number == 0 else None,
            "checkpoint": json.dumps({"last_order": 6200}) if number == 0 else None,
        }  # fmt: skip


def waiting(now: datetime, rng: Random) -> Iterator[dict[str, Any]]:
    for number in range(34):
        group = {"group_key": "reminders-46"} if number % 2 else {}
        due = now - (40 - number) * SECOND
        yield {**pending("send_email", "mail", due, mail(rng, order=48_100 + number)), **group}
    for number in range(8):
        due = now - (25 - number) * MINUTE
        yield pending("resize_image", "images", due, json.dumps({"image": 7200 + number}))
    error = TRACEBACK.format(
        kind="ConnectionReset", message="by peer", module="payments", line=41, function="charge_card", code="…"
    )  # fmt: skip
    for number in range(3):
        row = pending("charge_card", "payments", now - 2 * MINUTE, json.dumps({"order": 48_090 + number}))
        again = {"run_at": now + (20 + 9 * number) * SECOND, "last_error": error, "attempts": 2, "claims": 2}
        yield {**row, **again, "priority": 0}


def pending(type_name: str, lane: str, created_at: datetime, payload: str) -> dict[str, Any]:
    row = {"type": type_name, "lane": lane, "status": "pending", "payload": payload}
    return {**row, "created_at": created_at, "run_at": created_at}


def failed_attempts(job_id: int, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Between enqueue and death, at increasing intervals."""
    if not row.get("last_error"):
        return
    end = row.get("finished_at") or row["created_at"] + MINUTE
    times = [end - (end - row["created_at"]) / 2**number for number in range(1, row["attempts"])] + [end]
    assert all(one <= other for one, other in pairwise(times))
    for attempt, at in enumerate(times, start=1):
        yield {
            "job_id": job_id, "attempt": attempt, "worker_id": f"worker-sample-{attempt}", "outcome": "failed",
            "error": row["last_error"], "fingerprint": Failure.from_reason(row["last_error"]).fingerprint,
            "finished_at": at, "duration_ms": 412 * attempt,
        }  # fmt: skip
