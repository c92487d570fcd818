"""Old records of all areas are deleted in slices; recent ones, and those that are still needed, stay."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from handlers.maintenance.purge import ROWS_PER_COMMIT
from handlers.maintenance.retention import RETENTIONS
from mayfly import enqueue
from mayfly.testing import Drained, drain
from tests.handlers.rows import insert, select

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
NOW = datetime.now().astimezone()
OLD, RECENT = NOW - timedelta(days=400), NOW - timedelta(days=1)


def effect(key: str, at: datetime, state: str = "done") -> dict[str, Any]:
    return {"effect_key": key, "kind": "mail", "state": state, "job_id": 1, "claims": 1, "changed_at": at}


def answer(key: str, at: datetime) -> dict[str, Any]:
    return {"provider": "hunter", "question_key": key, "question": "{}", "answer": "{}", "answered_at": at}


def blast(job_id: int, name: str, state: str, finished_at: datetime | None) -> dict[str, Any]:
    figures = dict.fromkeys(("mails", "suppressed", "written", "unfit", "sent", "failed", "cancelled"), 0)
    times = {"started_at": OLD, "finished_at": finished_at}
    return {"job_id": job_id, "blast": name, "state": state, **figures, **times}


def blast_mail(job_id: int, name: str) -> dict[str, Any]:
    return {"blast": name, "address": "ann@example.com", "job_id": job_id, "written_by": "x"}


def template(key: str) -> dict[str, Any]:
    return {"template_key": key, "subject": "Hello", "text_body": "Dear you", "created_at": OLD}


def call(key: str, at: datetime) -> dict[str, Any]:
    row = {"call_key": key, "job_id": 1, "purpose": "nudge", "board_id": 1, "model": "m", "state": "done"}
    return {**row, "prompt": "[]", "asked_at": at}


def nudge(day: str, at: datetime) -> dict[str, Any]:
    return {"board_id": 1, "day": day, "state": "silent", "job_id": 1, "changed_at": at}


def campaign(number: int, ended_at: datetime | None) -> dict[str, Any]:
    return {"id": number, "name": f"c{number}", "zone": "UTC", "created_at": OLD, "ended_at": ended_at}


def delivery(key: str, created_at: datetime, sent_at: datetime | None) -> dict[str, Any]:
    row = {
        "tenant_id": "default",
        "effect_key": key,
        "job_id": 1,
        "recipient": key,
        "sender": "ann",
        "provider": "ann",
    }
    times = {"created_at": created_at, "sent_at": sent_at, "changed_at": created_at}
    return {**row, "message_id": key, "token": key, "status": "sent", **times}


def mail_event(key: str, at: datetime, status: str = "applied") -> dict[str, Any]:
    row = {"tenant_id": "default", "event_key": key, "provider": "mailgun", "kind": "delivered", "status": status}
    return {**row, "details": "{}", "occurred_at": at, "received_at": at}


def webhook(key: str, at: datetime) -> dict[str, Any]:
    row = {"tenant_id": "default", "endpoint_id": 1, "event_key": key, "event_type": "mail.bounced", "content": "{}"}
    return {**row, "status": "delivered", "created_at": at}


def warmup_mail(key: str, at: datetime) -> dict[str, Any]:
    row = {"tenant_id": "default", "mail_key": key, "from_account_id": 1, "to_account_id": 2, "message_id": key}
    return {**row, "subject": "Hello", "created_at": at}


def warmup_step(number: int, at: datetime, kind: str = "outbound") -> dict[str, Any]:
    return {"email_account_id": 1, "warmup_type": kind, "sequence_step": number, "created_at": at, "done_at": at}


def prune() -> Drained:
    enqueue("prune_records")
    return drain(raises=False)


@pytest.mark.every_database
def test_old_records_are_deleted_and_needed_ones_stay(platform: str) -> None:
    """By the default ages. On every database."""
    states = [effect("done", OLD), effect("open", OLD, "open"), effect("doubt", OLD, "handed over")]
    insert(platform, "app_idempotency", *states, effect("new", RECENT))
    insert(platform, "app_cached_answers", answer("old", OLD), answer("new", RECENT))
    insert(platform, "app_blasts", blast(1, "old", "sent", OLD), blast(2, "new", "sent", RECENT))
    insert(platform, "app_blasts", blast(3, "sending", "sending", None), blast(4, "extended", "sent", OLD))
    insert(platform, "app_blasts", blast(5, "extended", "sent", RECENT))
    names = {1: "old", 2: "new", 3: "sending"}
    insert(platform, "app_blast_mails", *(blast_mail(job_id, name) for job_id, name in names.items()))
    keys = ("blast:old", "blast:new", "blast:sending", "blast:extended", "welcome")
    insert(platform, "app_templates", *map(template, keys))
    insert(platform, "app_llm_calls", call("old", OLD), call("new", RECENT))
    insert(platform, "app_nudges", nudge("2025-01-01", OLD), nudge("2026-01-01", RECENT))
    suggestions = [{"job_id": 1, "post_id": 1, "written_at": OLD}, {"job_id": 2, "post_id": 2, "written_at": RECENT}]
    insert(platform, "app_suggestions", *suggestions)
    for name, until_at in (("old", OLD), ("new", RECENT)):
        insert(platform, "app_cooldowns", {"provider": name, "until_at": until_at, "reason": ""})
    campaigns = [campaign(1, OLD), campaign(2, RECENT), campaign(3, None)]
    insert(platform, "app_campaigns", *campaigns)
    enrolled = [{"campaign_id": each["id"], "contact_id": 1} for each in campaigns]
    insert(platform, "app_enrolments", *enrolled)
    insert(platform, "app_step_executions", *({**each, "step_id": 1, "status": "SENT"} for each in enrolled))
    sends = [{"sender_id": 1, "local_date": f"{at:%F}", "day_limit": 5, "sends": 3} for at in (OLD, RECENT)]
    insert(platform, "app_sender_days", *sends)

    sent = [delivery("old", OLD, OLD), delivery("never", OLD, None), delivery("late", OLD, RECENT)]
    insert(platform, "app_mail_deliveries", *sent, delivery("new", RECENT, RECENT))
    events = [mail_event("old", OLD), mail_event("waiting", OLD, "received"), mail_event("new", RECENT)]
    insert(platform, "app_mail_events", *events)
    insert(platform, "app_webhook_deliveries", webhook("old", OLD), webhook("new", RECENT))
    insert(platform, "app_mail_warmup_mails", warmup_mail("old", OLD), warmup_mail("new", RECENT))
    steps = [warmup_step(1, OLD), warmup_step(2, OLD), warmup_step(3, RECENT), warmup_step(9, OLD, "inbound")]
    insert(platform, "app_mail_warmup_steps", *steps)
    days = [("2024-01-01", 0), ("2024-01-02", 1), (f"{RECENT:%F}", 0)]
    insert(platform, "app_mail_days", *({"day": day, "is_stale": is_stale} for day, is_stale in days))

    [run] = prune().runs

    assert run.result == {
        "app_idempotency": 2, "app_cached_answers": 1, "app_blast_mails": 1, "app_templates": 1, "app_llm_calls": 1,
        "app_nudges": 1, "app_suggestions": 1, "app_step_executions": 1, "app_enrolments": 1, "app_sender_days": 1,
        "app_mail_deliveries": 2, "app_mail_days": 1, "app_mail_events": 1, "app_webhook_deliveries": 1,
        "app_mail_warmup_mails": 1, "app_mail_warmup_steps": 2, "app_cooldowns": 1,
    }  # fmt: skip
    left = {
        "app_enrolments": "campaign_id", "app_step_executions": "campaign_id",
        "app_idempotency": "effect_key", "app_blast_mails": "blast", "app_templates": "template_key",
        "app_mail_deliveries": "effect_key", "app_mail_events": "event_key", "app_cooldowns": "provider",
        "app_mail_warmup_steps": "sequence_step", "app_mail_days": "day",
    }  # fmt: skip
    assert {
        table: [row[0] for row in select(platform, f"SELECT {column} FROM {table} ORDER BY {column}")]
        for table, column in left.items()
    } == {
        "app_enrolments": [2, 3],
        "app_step_executions": [2, 3],
        "app_idempotency": ["doubt", "new"],
        "app_blast_mails": ["new", "sending"],
        "app_templates": ["blast:extended", "blast:new", "blast:sending", "welcome"],
        "app_mail_deliveries": ["late", "new"],
        "app_mail_events": ["new", "waiting"],
        "app_cooldowns": ["new"],
        "app_mail_warmup_steps": [3, 9],
        "app_mail_days": ["2024-01-02", f"{RECENT:%F}"],
    }


@SQLITE
def test_records_are_deleted_in_slices(platform: str) -> None:
    """1,000 per commit, each slice continues the last."""
    nudges = [{**nudge("2025-01-01", OLD), "board_id": number} for number in range(1, 2 * ROWS_PER_COMMIT + 8)]
    insert(platform, "app_nudges", *nudges)
    enqueue("prune_records")

    drained = drain(slice_after=1)

    assert drained.outcomes == {"sliced": 3, "done": 1}
    assert drained.runs[-1].result["app_nudges"] == 2 * ROWS_PER_COMMIT + 7


@SQLITE
@pytest.mark.parametrize("retention", RETENTIONS, ids=lambda each: each.table.name)
def test_each_age_is_a_setting(platform: str, monkeypatch: pytest.MonkeyPatch, retention: Any) -> None:
    """An invalid one deletes nothing, and is named."""
    insert(platform, "app_llm_calls", call("kept", RECENT))
    insert(platform, "app_nudges", nudge("2025-01-01", OLD))
    monkeypatch.setenv(retention.setting, "0")

    [run] = prune().runs

    assert (run.kind, run.reason) == ("dead", f"{retention.setting} must be a number of days, 1–36,500")
    assert select(platform, "SELECT COUNT(*) FROM app_nudges") == [(1,)]
    monkeypatch.setenv(retention.setting, "500")
    monkeypatch.setenv("APP_KEEP_NUDGES_DAYS", "500")
    assert prune().runs[-1].result["app_nudges"] == 0
