"""The shipped lanes and schedules are valid and fit the handlers."""

import re
import shutil
from pathlib import Path

import pytest

from mayfly import json_text
from mayfly.registry import Handler, load_handlers
from mayfly.schedules.files import read_schedules
from mayfly.schedules.parse import ScheduleEntry
from mayfly.settings import Settings, load
from tests.process.installation import CHECKOUT

HANDLERS = CHECKOUT / "handlers"
POOLS = {
    "email": 3, "outreach": 3, "data": 2, "enrich": 2, "ai": 1, "campaigns": 1, "mailroom": 2, "messages": 3,
    "misc": 1, "notify": 1,
}  # fmt: skip
LANES = {
    "email": {"send_email", "send_digest", "email_sending"},
    "outreach": {"send_outreach"},
    "data": {"import_prospects", "dedup_prospects"},
    "enrich": {"enrich"},
    "ai": {"ai_summarize_board", "gpt_ai_cofac_nudging"},
    "campaigns": {"send_campaign", "send_campaign_step"},
    "mailroom": {"email_processing", "bounce", "webhook"},
    "messages": {"email", "sms", "voicemail"},
    "misc": {
        "publish_post", "close_board", "archive_board", "purge_sessions", "vacuum_logs", "metric_rollup",
        "health_check", "warmup", "analytics",
    },
    "notify": {"notify"},
}  # fmt: skip


@pytest.fixture(scope="module")
def known() -> dict[str, Handler]:
    """All types except the samples."""
    found = load_handlers(["handlers"]).handlers
    return {
        name: each for name, each in found.items() if each.where.startswith("handlers.") and each.lane != "default"
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    shutil.copy(HANDLERS / "mayfly.toml", tmp_path)
    return load({"MAYFLY_HOME": str(tmp_path)}).settings


@pytest.fixture(scope="module")
def entries() -> tuple[ScheduleEntry, ...]:
    read = read_schedules([HANDLERS / "schedule"], CHECKOUT, 64 << 10)
    assert read.problems == ()
    return read.entries


def test_the_lanes_are_those_of_the_handlers(settings: Settings, known: dict[str, Handler]) -> None:
    """Each declared lane is configured, and no other."""
    assert settings.lanes.keys() == {each.lane for each in known.values()}


def test_each_lane_has_its_pool_and_its_target(settings: Settings) -> None:
    """Each pool has lanes; urgent lanes linger."""
    found = {pool: {name for name, each in settings.lanes.items() if each.pool == pool} for pool in POOLS}
    assert (settings.pools, sum(settings.pools.values())) == (POOLS, 19)
    assert (found, len(settings.lanes)) == (LANES, 27)
    assert [name for name, each in settings.lanes.items() if each.latency_target is None] == []
    assert {name for name, each in settings.lanes.items() if each.linger} == {"send_email", "notify"}


def test_each_lane_and_pool_has_a_reason() -> None:
    """In a comment above or beside it."""
    text = (HANDLERS / "mayfly.toml").read_text()
    pools = re.findall(r"^\w+ = \d+( +# .+)?$", text.partition("[lanes.")[0], re.MULTILINE)
    lanes = re.findall(r"(# [^\n]+)?\n\[lanes\.", text)

    assert (len(pools), all(pools)) == (len(POOLS), True)
    assert (len(lanes), all(lanes)) == (27, True)


def test_each_schedule_fits_its_handler(entries: tuple[ScheduleEntry, ...], known: dict[str, Handler]) -> None:
    """Its lane and its payload."""
    for each in entries:
        handler = known[each.type]
        assert (handler.lane, handler.model is not None) == (each.lane, True)
        handler.model.model_validate(json_text.decode(each.payload))  # type: ignore[union-attr]


def test_all_recurring_jobs_are_scheduled(entries: tuple[ScheduleEntry, ...]) -> None:
    """As often as they should run."""
    expressions = {each.name: each.expression for each in entries}

    assert (expressions["health_check"], expressions["publish_due_posts"]) == ("* * * * *", "* * * * *")
    assert expressions["gpt_ai_cofac_nudging"] == "*/5 * * * *"
    assert (expressions["process_followups"], expressions["close_campaigns"]) == ("*/15 * * * *", "*/10 * * * *")
    assert (expressions["aggregate_daily"], expressions["plan_warmup"]) == ("*/10 * * * *", "5 * * * *")
    assert expressions["reset_warmup"] == "0 0 * * *"
    nightly = {"purge_sessions", "vacuum_logs", "prune_records", "rebuild_search_index", "send_digest"}
    assert {name for name in nightly if re.fullmatch(r"\d+ \d+ \* \* \*", expressions[name])} == nightly
