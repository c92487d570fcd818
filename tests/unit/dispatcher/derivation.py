"""The full path's statements as the probe sends them: compiled by SQLAlchemy, what never varies written out."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ClauseElement, Dialect, make_url, select

from dispatcher.summary import Summary, cycle_row
from mayfly.clock import milliseconds
from mayfly.dialect import utc_now
from mayfly.fleet.cycles import close_statement, open_statement, passed_over_statement
from mayfly.fleet.planning import lock_statement, release_statement, take_statement
from mayfly.fleet.runners import live_statement
from mayfly.jobs.count import count_statement, next_lane_statement
from mayfly.jobs.keep import cutoff
from mayfly.jobs.prune import Keep, searches
from mayfly.jobs.rescue import processing_statement
from mayfly.schema import JOBS, VERSION
from mayfly.version import version_statement

HEADING = """\
-- What an idle cycle sends, compiled from the full path's statements. A test compares it with them;
-- UPDATE_GOLDEN=1 scripts/test tests/unit/dispatcher/test_derived.py writes it anew."""

# What varies, by the value that stands for it while compiling.
NOW, LEASE_UNTIL = datetime(2026, 5, 4, 12, tzinfo=UTC), datetime(2026, 5, 4, 13, tzinfo=UTC)
LANE, HOST, HOLDER = "a lane", "a host", "a holder"
NUMBER, LAST_NUMBER, DURATION_MS = 1_000_000_000_001, 1_000_000_000_002, 1_000_000_000_003
DAYS = 7.0
BEFORE = cutoff(NOW, DAYS)
SLOTS: Mapping[object, str] = {
    NOW: "now",
    LEASE_UNTIL: "lease_until",
    LANE: "lane",
    HOST: "host",
    HOLDER: "holder",
    NUMBER: "number",
    LAST_NUMBER: "last_number",
    DURATION_MS: "duration_ms",
    BEFORE: "before",
    milliseconds(BEFORE): "before_ms",
}


def dialects() -> dict[str, Dialect]:
    """With parameters by name, which every one of the drivers takes."""
    mysql = _dialect("mysql+pymysql://", paramstyle="pyformat")
    mysql._requires_alias_for_on_duplicate_key = True  # as SQLAlchemy finds it on a server from 8.0.20 on
    return {
        "sqlite": _dialect("sqlite://", paramstyle="named"),
        "mariadb": _dialect("mysql+pymysql://", paramstyle="pyformat", is_mariadb=True),
        "mysql": mysql,
        "postgresql": _dialect("postgresql+psycopg://", paramstyle="pyformat"),
    }


def _dialect(url: str, **options: Any) -> Any:
    return make_url(url).get_dialect()(**options)


def derived_text(dialect: Dialect) -> str:
    parts = [f"-- {name}\n{text}" for name, text in derived(dialect)]
    return "\n\n".join([HEADING, f"-- schema version\n{VERSION}", *parts]) + "\n"


def derived(dialect: Dialect) -> Iterator[tuple[str, str]]:
    for name, statement in statements(dialect):
        yield name, compiled(statement, dialect)


def statements(dialect: Dialect) -> Iterator[tuple[str, ClauseElement]]:
    """In the order of the cycle. Where one row says all, no more is read."""
    yield "clock", select(utc_now())
    yield "version", version_statement()
    yield "lock", lock_statement()
    yield "live runners", live_statement().limit(1)
    yield "passed over", passed_over_statement()
    yield "next lane", next_lane_statement(JOBS, LANE)
    yield "due", count_statement(JOBS, {LANE: 0}, NOW)
    yield "processing", processing_statement(JOBS, LANE).limit(1)
    yield from prune_statements()
    yield "take", take_statement(LAST_NUMBER, HOLDER, LEASE_UNTIL, NUMBER)
    yield "release", release_statement(NUMBER)
    yield "open cycle", open_statement(dialect).values(id=NUMBER, host=HOST, started_at=NOW)
    yield "close cycle", close_statement(NUMBER, idle_figures(), NOW)


def prune_statements() -> Iterator[tuple[str, ClauseElement]]:
    """One group a setting that says how long rows are kept: those of a lane, and those of all."""
    nothing = dict.fromkeys(asdict(Keep()))
    for field in fields(Keep):
        keep = Keep(**{**nothing, field.name: DAYS})
        of_all = len(list(searches(JOBS, [], keep, NOW)))
        found = [each.statement for each in searches(JOBS, [LANE], keep, NOW)]
        for number, statement in enumerate(found, start=1):
            kind = "lane" if of_all == 0 else "all"
            yield f"prune {kind} keep_{field.name}_days {number}", statement
        assert of_all in (0, len(found)), "a kind of rows that is pruned by lane and also as a whole"


def idle_figures() -> Mapping[str, Any]:
    return cycle_row(Summary(cycle_id=NUMBER, pending="0", planned=0, ends=(), duration_ms=DURATION_MS))


def compiled(statement: ClauseElement, dialect: Dialect) -> str:
    found = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    named, slot = (r":([a-z]\w*)", ":{}") if dialect.paramstyle == "named" else (r"%\((\w+)\)s", "%({})s")

    def written(match: re.Match[str]) -> str:
        value = found.params[match[1]]
        return slot.format(SLOTS[value]) if value in SLOTS else literal(value)

    return re.sub(r" +(?=\n|$)", "", re.sub(named, written, str(found)))


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    assert isinstance(value, int | str), f"{value!r} varies and has no name"
    return str(value) if isinstance(value, int) else "'{}'".format(value.replace("'", "''"))
