"""Old sessions and log rows are deleted in slices; used ones stay."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from handlers.maintenance.payloads import CheckHealth, PurgeSessions, RollUpMetrics, VacuumLogs
from handlers.maintenance.purge import ROWS_PER_COMMIT
from mayfly import enqueue
from mayfly.testing import drain
from tests.handlers.rows import insert, select
from tests.hypothesis_profiles import in_full

NOW = datetime.now().astimezone()


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def session(number: int, days: float) -> dict[str, object]:
    return {
        "person_id": 1, "token_hash": f"hash {number}", "created_at": days_ago(99), "seen_at": days_ago(days),
    }  # fmt: skip


@pytest.mark.every_database
def test_unused_sessions_are_purged_in_slices(platform: str) -> None:
    """1,000 per commit; each slice continues the last; a repeated job finds none. On every database."""
    insert(platform, "app_sessions", *(session(number, 40) for number in range(ROWS_PER_COMMIT + 5)), session(-1, 20))
    enqueue("purge_sessions", {"days": 30})

    sliced = drain(slice_after=1)
    enqueue("purge_sessions", {"days": 30})
    again = drain()

    assert sliced.outcomes == {"sliced": 2, "done": 1}
    assert [sliced.runs[-1].result, again.runs[-1].result] == [{"sessions": ROWS_PER_COMMIT + 5}, {"sessions": 0}]
    assert select(platform, "SELECT token_hash FROM app_sessions") == [("hash -1",)]


@pytest.mark.every_database
def test_log_rows_are_vacuumed_by_their_age(platform: str) -> None:
    """Without a directory no file is deleted. On every database."""
    rows = [{"logged_at": days_ago(days), "level": "info", "message": f"{days}"} for days in (29, 31, 400)]
    insert(platform, "app_log_rows", *rows)
    enqueue("vacuum_logs")

    drained = drain()

    assert drained.runs[0].result == {"rows": 2, "files": 0, "bytes": 0}
    assert select(platform, "SELECT message FROM app_log_rows") == [("29",)]


ANYTHING = st.one_of(
    st.none(), st.integers(), st.text(), st.floats(), st.floats(-1, 1), st.lists(st.text(), max_size=2)
)


@in_full(50)
@given(model=st.sampled_from([PurgeSessions, VacuumLogs, RollUpMetrics, CheckHealth]), data=st.data())
def test_any_payload_is_refused_or_keeps_at_least_a_day(model: type[BaseModel], data: st.DataObject) -> None:
    """No age is so small that used rows are deleted, nor too large for a date."""
    payload = data.draw(st.dictionaries(st.sampled_from([*model.model_fields, "extra"]), ANYTHING))
    try:
        made = model.model_validate(payload)
    except ValidationError:
        return

    ages = [value for name, value in made if name.endswith("days")]
    assert all(timedelta(days=1) <= NOW - (NOW - timedelta(days=each)) for each in ages)
