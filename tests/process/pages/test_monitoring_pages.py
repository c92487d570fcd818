"""The overview and the pages about cycles, runners, limits, schedules, audit and settings."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mayfly.clock import milliseconds
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.stats.histograms import Count, Tally
from mayfly.stats.totals import add_up_totals, write_totals
from tests.process.console.api import Answer, Api
from tests.process.installation import Installation
from tests.process.pages.visitor import Visitor, text_of

EVIL = "<script>alert('1')</script>"
SOURCE = """
[sources.posts]
table = "posts"
type = "noop"
pending = "pending"
processing = "processing"
done = "done"
failed = "failed"
"""
SCHEDULE = """
*/5 * * * *    noop name=often
0 3 * * 1      noop name=weekly tz=Europe/Berlin lane=night overlap=skip
"""


def cycle(
    made: Installation, minutes_ago: float, host: str = "web-1", took: int | None = 900, **figures: int
) -> None:
    at = made.now() - timedelta(minutes=minutes_ago)
    database = made.database
    database.run(lambda connection: open_cycle(connection, milliseconds(at), host, at))
    if took is not None:
        ended = {"exit_code": 0, "duration_ms": took, **figures}
        database.run(lambda connection: close_cycle(connection, milliseconds(at), ended, at))


def count(made: Installation, minutes_ago: float, tally: Tally) -> None:
    """As a cycle that ended at that time."""
    at = milliseconds(made.now() - timedelta(minutes=minutes_ago))
    made.database.run(lambda connection: write_totals(connection, at, "worker-1", tally))
    made.database.run(lambda connection: add_up_totals(connection, at, made.now()))


def insert(made: Installation, table: str, row: dict[str, Any]) -> None:
    made.database.run(lambda connection: connection.execute(connection.dialect.insert(table, row), row))


def rows_of(answer: Answer) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.text)))


# --- the overview -----------------------------------------------------------------------------------------


def test_empty_pages_explain_what_to_do(api: Api, visitor: Visitor) -> None:
    """The overview of a new installation begins with the missing cycles."""
    pages = {path: text_of(visitor.get(path)) for path in ("/", "/cycles", "/runners", "/limits", "/schedules")}

    assert "No host has run a cycle within a day" in pages["/"]
    assert "No lanes yet." in pages["/"]
    assert "No data for this period." in pages["/"]
    assert "mayfly cron install" in pages["/cycles"]
    assert "No live runners." in pages["/runners"]
    assert "No limits used yet." in pages["/limits"]
    assert "No schedules." in pages["/schedules"]
    assert api.installation.rows("SELECT * FROM mayfly_audit WHERE done_by = 'admin'") == []


def test_the_overview_of_a_healthy_installation_has_no_warnings(api: Api, visitor: Visitor) -> None:
    """It shows the age of each host's last cycle; a backlog that is being processed is no warning."""
    made = api.installation
    for minute in range(5):
        cycle(made, minute + 0.2, "web-1")
        cycle(made, minute + 0.3, "web-2")
    count(made, 1, {("default", "noop", "done"): Count(1234, {10: 1234}, {200: 1234})})
    made.enqueue("noop", count=3, run_at=made.now() - timedelta(minutes=20))

    page = visitor.get("/")
    text = text_of(page)

    assert re.search(r"web-1 last cycle 1\d s ago\s+web-2 last cycle", text)
    assert "1,234" in text
    assert "default 3 20 min" in text
    assert not re.search(r'class="(warning|failure)"|is-bad|is-late', page.text)


def test_a_backlog_that_is_not_processed_is_a_warning(api: Api, visitor: Visitor) -> None:
    """A recent backlog is not, nor one of a paused lane: that is shown with its user and reason."""
    made = api.installation
    cycle(made, 0.2)
    long_ago, just_now = made.now() - timedelta(minutes=20), made.now() - timedelta(seconds=20)
    made.enqueue("noop", count=2, lane="stuck", run_at=long_ago)
    made.enqueue("noop", lane="young", run_at=just_now)
    made.enqueue("noop", lane="held", run_at=long_ago)
    visitor.post("/pause", kind="lane", name="held", reason="vendor is down")

    text = text_of(visitor.get("/"))

    warnings = re.findall(r"Lane (\w+) has (\d+) due jobs, the oldest for 20 min, and no runner", text)
    assert warnings == [("stuck", "2")]
    assert "paused: vendor is down by admin" in text


def test_a_host_without_recent_cycles_is_highlighted(api: Api, visitor: Visitor) -> None:
    """With the age of its last cycle and the minutes it missed."""
    made = api.installation
    for minute in (12, 11, 4.5):
        cycle(made, minute, "quiet")
    for minute in (3, 2, 1, 0.1):
        cycle(made, minute, "busy", took=61_000 if minute == 2 else 900)

    page = visitor.get("/")
    text = text_of(page)

    assert "quiet last cycle 4 min ago . Is cron running?" in text
    assert re.search(r"quiet .* (9|10) minutes missed in the last hour", text)
    assert re.search(r"busy last cycle \d+ s ago 1 overrun in the last hour", text)
    assert page.text.count("host is-bad") == 1


def test_a_wait_over_the_latency_target_is_late(own_api: Api) -> None:
    """LATENCY_TARGET of its lane."""
    made = own_api.installation
    cycle(made, 0.1)
    made.enqueue("noop", lane="mail", run_at=made.now() - timedelta(minutes=2))
    own_api.process.terminate()
    own_api.process.wait()
    own_api.settings = {**own_api.settings, "LANES__MAIL__LATENCY_TARGET": "1m"}
    own_api.process = own_api.start()

    page = Visitor(own_api.port).log_in().get("/")

    assert re.search(r'class="status is-late">1?2\d?', page.text)
    assert "target 60 s" in text_of(page)


def test_newly_dead_jobs_are_shown_with_their_error(api: Api, visitor: Visitor) -> None:
    """Escaped."""
    made = api.installation
    now = made.now()
    [job_id] = made.enqueue(EVIL, status="dead", finished_at=now, last_error=EVIL)
    made.execute(
        "INSERT INTO mayfly_attempts (job_id, attempt, worker_id, outcome, error, fingerprint, finished_at)"
        f" SELECT id, 5, 'w', 'failed', last_error, 'f', finished_at FROM mayfly_jobs WHERE id = {job_id}"
    )
    count(made, 1, {("default", EVIL, "dead"): Count(3)})

    page = visitor.get("/")

    assert re.search(r"Newly dead .*alert\('1'\).* 3 ", text_of(page))
    assert f'/jobs/{job_id}"' in page.text
    assert "<script>alert" not in page.text
    assert "No jobs died" not in text_of(page)


@pytest.mark.parametrize("period", ["1h", "24h", "7d", "30d", "nonsense"])
def test_the_overview_has_charts_of_the_chosen_period(api: Api, visitor: Visitor, period: str) -> None:
    """The period is in the address; each chart has a title, a summary and a table."""
    made = api.installation
    cycle(made, 30, took=1500)
    count(made, 30, {("default", "noop", "done"): Count(60, {10: 60}, {5000: 60}), ("a", "b", "failed"): Count(7)})

    page = visitor.get(f"/?range={period}").text

    titles = re.findall(r'<svg class="chart"[^>]*><title id="[\w-]+">([^<]+)', page)
    assert [each.partition(" ")[0] for each in titles] == ["Jobs", "Failures", "Wait", "Cycle"]
    assert page.count("<summary>Show as table</summary>") == 4
    assert "median: highest 5 s" in page
    assert "failed attempts: highest 7" in page
    assert f'range={"1h" if period == "nonsense" else period}#charts" aria-current="page"' in page


def test_chart_figures_can_be_exported(api: Api, visitor: Visitor) -> None:
    """One row per point."""
    count(api.installation, 30, {("default", "noop", "done"): Count(60)})

    table, tree = visitor.get("/history.csv?range=24h"), visitor.get("/history.json?range=24h")

    assert sum(int(each["done"]) for each in rows_of(table)) == 60
    assert [each["done"] for each in json.loads(tree.text)] == [int(each["done"]) for each in rows_of(table)]
    assert 'filename="history.csv"' in table.headers["content-disposition"]


# --- cycles and runners -----------------------------------------------------------------------------------


def test_missed_minutes_are_shown_as_a_gap(api: Api, visitor: Visitor) -> None:
    """Overruns, failures and cycles that never ended are marked."""
    made = api.installation
    for minute in (8, 7, 3, 2, 1, 0.1):
        cycle(made, minute, took=75_000 if minute == 2 else None if minute == 3 else 900, exit_code=int(minute == 1))

    page = visitor.get("/cycles")
    text = text_of(page)

    assert "web-1 last hour: 3 minutes missed, 2 overruns" in text
    assert page.text.count('class="gap"') == 1
    assert "3 minutes missed on web-1: no cycle started for 4 min" in text
    assert page.text.count('class="overrun"') == 2
    assert "overrun 75 s" in text
    assert "never ended" in text
    assert page.text.count('class="status is-failed">1<') == 1


def test_cycles_are_paginated(api: Api, visitor: Visitor) -> None:
    """By key: each cycle is shown exactly once."""
    for minute in range(130):
        cycle(api.installation, minute)
    seen: list[str] = []
    address = "/cycles"
    while address:
        page = visitor.get(address).text
        seen += re.findall(r'<th scope="row" data-label="Started" class="nowrap"><span>([\d: -]+) ', page)
        found = re.search(r'href="([^"]*)" rel="next"', page)
        address = found[1] if found else ""

    assert len(seen) == len(set(seen)) == 130
    assert len(rows_of(visitor.get("/cycles.csv"))) == 130
    assert len(json.loads(visitor.get("/cycles.json").text)) == 130


def test_live_and_ended_runners_are_shown(api: Api, visitor: Visitor) -> None:
    """After real cycles: jobs, resources and results."""
    made = api.installation
    made.enqueue("noop", count=3)
    made.enqueue("die_once", lane="sick")
    made.dispatch()
    alive = (
        "worker_id, cycle_id, lane, host, machine, pid, pid_started, planned_at, lease_until, jobs_done, running,"
        " earlier_lanes"
    )
    earlier = '["bills", "letters"]'
    starts = '{"17": "2026-05-04T12:00:00+00:00", "18": "2026-05-04T12:01:00+00:00"}'
    made.execute(
        f"INSERT INTO mayfly_runners ({alive}) SELECT 'worker-alive', cycle_id, 'mail', 'far-away', machine, 7, 7,"
        f" planned_at, planned_at, 41, '{starts}', '{earlier}' FROM mayfly_runners WHERE lane = 'default'"
    )

    text = text_of(visitor.get("/runners"))
    alive_part, _, ended = text.partition("Ended")

    assert re.search(
        r"worker-alive mail after 2 other lanes far-away pid 7 .* overdue 17 started .* and 1 other job 41 0 ",
        alive_part,
    )
    assert re.search(r"worker-\d+-\d+ default \S+ pid \d+ .* ok 3 0 .* \d+ MiB [\d.]+ m?s", ended)
    assert re.search(r"sick .* crash signal 9", ended)
    assert 'title="bills, letters"' in visitor.get("/runners").text
    listed = {each["worker_id"]: each["earlier_lanes"] for each in api.get("/runners").json["runners"]}
    assert listed["worker-alive"] == ["bills", "letters"]


def test_a_runner_of_a_launcher_has_a_page(api: Api, visitor: Visitor) -> None:
    """With its cause and its output, in which fields of REDACT are masked and tags are text."""
    made = api.installation
    made.enqueue("noop")
    made.dispatch()
    made.execute(
        "UPDATE mayfly_runners SET worker_id = 'worker-1-1', launcher = 'slurm', external_id = '4711',"
        " ending = 'lost', log_file = '/logs/x.log', cause = 'node failed', output = '<b>the end</b> token=s3cret'"
    )

    text = text_of(visitor.get("/runners"))
    page = visitor.get("/runners/worker-1-1")

    assert re.search(r"worker-1-1 default .* lost node failed", text)
    shown = text_of(page)
    assert re.search(r"Cause node failed Launcher slurm Id in the engine 4711 Log file /logs/x.log", shown)
    assert "<b>" not in page.text.partition("<pre")[2]
    assert "the end" in shown
    assert "s3cret" not in page.text
    assert visitor.get("/runners/worker-2-1").status == 404


def test_runners_are_paginated(api: Api, visitor: Visitor) -> None:
    """Also if many ended at the same time."""
    made = api.installation
    at = made.now()
    always = {"cycle_id": 1, "host": "h", "machine": "m", "pid": 1, "pid_started": 1, "ending": "ok"}
    times = {"planned_at": at, "lease_until": at}
    for number in range(120):
        ended_at = at + timedelta(seconds=number // 40)
        own = {"worker_id": f"worker-{number:03}", "lane": "ab"[number % 2], "finished_at": ended_at}
        insert(made, "mayfly_runners", {**always, **times, **own})
    seen: list[str] = []
    address = "/runners"
    while address:
        page = visitor.get(address).text
        seen += re.findall(r'class="mono">(worker-\d+)<', page)
        found = re.search(r'href="([^"]*)" rel="next"', page)
        address = found[1] if found else ""

    assert sorted(seen) == [f"worker-{number:03}" for number in range(120)]
    assert len(json.loads(visitor.get("/runners.json").text)) == 120


# --- limits, schedules, audit, settings -------------------------------------------------------------------


def test_limits_are_shown_with_their_usage(api: Api, visitor: Visitor) -> None:
    """Used-up keys first; all keys page by page."""
    made = api.installation
    later = made.now() + timedelta(hours=3)
    for number in range(120):
        used = 5 if number == 77 else 2
        row = {"limit_key": f"sender:{number:03}", "span": "day", "most": 5, "used": used, "opens_at": later}
        insert(made, "mayfly_limits", row)

    page = visitor.get("/limits")
    second = visitor.get("/limits?from=sender:100")

    full, _, everything = text_of(page).partition("All keys")
    assert re.search(r"sender:077 day 5 5 used up in [23] h", full)
    assert re.search(r"sender:000 day 2 5 in [23] h", everything)
    assert "sender:050" not in everything
    assert 'href="/limits?from=sender%3A050"' in page.text
    assert len(re.findall(r"sender:1\d\d", text_of(second).partition("All keys")[2])) == 20
    assert len(rows_of(visitor.get("/limits.csv"))) == 120


def test_schedules_are_described_in_words(api: Api, visitor: Visitor) -> None:
    """With zone, last and next run; a line with an error is reported."""
    write_schedule(api.installation, f"{SCHEDULE}99 * * * * noop name=wrong\n")

    text = text_of(visitor.get("/schedules"))

    assert "'99' is not a valid minute" in text
    assert re.search(r"often .* every fifth minute of every hour \*/5 \* \* \* \* UTC noop lane default", text)
    assert re.search(r"weekly .* at 03:00 on Monday 0 3 \* \* 1 Europe/Berlin noop lane night, one at a time", text)
    assert re.search(r"never Mon \d{4}-\d\d-\d\d 03:00", text)
    assert json.loads(visitor.get("/schedules.json").text)[0]["words"] == "every fifth minute of every hour"


def test_a_schedule_is_paused_resumed_and_run(api: Api, visitor: Visitor) -> None:
    """Each with an audit entry; the confirmation names the environment."""
    made = api.installation
    write_schedule(made, SCHEDULE)
    asked = text_of(visitor.get("/schedules/ask?verb=pause&name=weekly"))
    paused = visitor.follow(visitor.post("/schedules/pause", name="weekly", reason="holidays", until="2d"))
    resumed = visitor.follow(visitor.post("/schedules/resume", name="weekly"))
    ran = visitor.follow(visitor.post("/schedules/run", name="weekly"))
    again = visitor.follow(visitor.post("/schedules/run", name="weekly"))

    assert "Pause weekly in testing?" in asked
    assert "It runs at 03:00 on Monday (Europe/Berlin)" in asked
    assert re.search(r"paused holidays, by admin .*, ends in \d+ (h|days)", text_of(paused))
    assert "Resumed weekly" in text_of(resumed)
    assert "Enqueued a job of weekly" in text_of(ran)
    assert "weekly" in text_of(again)
    assert [row.group_key for row in made.rows("SELECT group_key FROM mayfly_jobs")] == ["schedule:weekly"]
    entries = made.rows("SELECT verb, done_by, via, subject, reason FROM mayfly_audit WHERE via = 'page' ORDER BY id")
    assert [tuple(each) for each in entries] == [
        ("pause schedule", "admin", "page", "weekly", "holidays"),
        ("resume schedule", "admin", "page", "weekly", None),
        ("run schedule", "admin", "page", "weekly", None),
    ]


def test_impossible_actions_on_a_schedule_are_refused(api: Api, visitor: Visitor) -> None:
    """An unknown name, a time in the past, an unknown action."""
    write_schedule(api.installation, SCHEDULE)

    assert visitor.post("/schedules/run", name="weekli").status == 422
    assert "weekly" in text_of(visitor.post("/schedules/run", name="weekli"))
    assert visitor.post("/schedules/pause", name="weekly", until="2001-01-01").status == 422
    assert visitor.get("/schedules/ask?verb=drop&name=weekly").status == 422
    assert "was not paused" in text_of(visitor.follow(visitor.post("/schedules/resume", name="weekly")))


def test_the_audit_lists_manual_actions(api: Api, visitor: Visitor) -> None:
    """Newest first, page by page, and as a file; reasons are escaped."""
    visitor.post("/pause", kind="lane", name="mail", reason=EVIL)
    for number in range(60):
        visitor.post("/lanes/workers", name="mail", workers=str(number % 9 + 1))

    first = visitor.get("/audit")
    found = re.search(r'href="([^"]*)" rel="next"', first.text)
    assert found
    second = visitor.get(found[1])

    assert len(re.findall(r'data-label="Action">', first.text)) == 50
    assert "<script>alert" not in second.text
    assert re.search(r"admin page pause lane .*alert\('1'\)", text_of(second))
    assert len(rows_of(visitor.get("/audit.csv"))) >= 61


def test_settings_are_shown_with_their_source_and_without_secrets(api: Api, visitor: Visitor) -> None:
    """To admins only; errors in a changed file are reported."""
    made = api.installation
    (made.home / ".env").write_text("BATCH_SIZE=7\nHEARTBEAT_URL=https://example.com/hook/geheim\n")

    page, given = visitor.get("/settings"), visitor.get("/settings?given=true")
    listed = visitor.get("/settings.json").text + visitor.get("/settings.csv").text
    (made.home / ".env").write_text("BATCH_SIZE=many\n")
    wrong = visitor.get("/settings")

    assert re.search(r"BATCH_SIZE 7 \S+\.env", text_of(page))
    assert re.search(r"MAX_WORKERS 5 default", text_of(page))
    assert "MAX_WORKERS" not in text_of(given)
    assert "DATABASE_URL" in text_of(page)
    for secret in ("geheim", *made.secrets):
        assert secret not in page.text + given.text + listed
    assert "BATCH_SIZE=many" in text_of(wrong)
    others = [Visitor(api.port).log_in(role).get("/settings").status for role in ("viewer", "operator")]
    assert others == [403, 403]


def write_schedule(made: Installation, text: str) -> None:
    (made.home / "cron.d").mkdir(exist_ok=True)
    (made.home / "cron.d" / "schedule").write_text(text)


# --- sources ----------------------------------------------------------------------------------------------


def test_the_list_of_sources_is_linked_only_if_there_are_any(api: Api, visitor: Visitor) -> None:
    """Without any, the page explains what a source is."""
    page = visitor.get("/sources")

    assert "No sources yet." in text_of(page)
    assert 'href="/sources"' not in visitor.get("/").text


def test_a_source_is_shown_with_its_rows_and_jobs(serving: Callable[..., Api], tmp_path: Path) -> None:
    """In its list, beside its jobs, in the JSON of a job; a cancelled job ends its row."""
    (tmp_path / "mayfly.toml").write_text(SOURCE)
    api = serving()
    made, visitor = api.installation, Visitor(api.port).log_in()
    made.execute("CREATE TABLE posts (id INTEGER PRIMARY KEY, status VARCHAR(20))")
    made.execute("INSERT INTO posts (id, status) VALUES (7, 'processing'), (8, 'pending')")
    [job_id], [other] = made.enqueue("noop", unique_key="source:posts:7"), made.enqueue("noop")

    sources, listed = text_of(visitor.get("/sources")), visitor.get("/jobs?source=posts")
    facts = api.get("/jobs?source=posts&row=7").json["jobs"]
    every = {each["id"]: each["row"] for each in api.get("/jobs").json["jobs"]}
    detail = api.get(f"/jobs/{job_id}").json["row"]
    cancelled = api.post("/cancel", {"source": "posts", "row": "7"})

    assert "posts posts posts noop 1" in " ".join(sources.split())
    assert 'href="/sources"' in visitor.get("/").text
    assert "row posts 7" in " ".join(text_of(listed).split())
    assert "It comes from row 7 of the source posts" in text_of(visitor.get(f"/jobs/{job_id}"))
    assert [each["id"] for each in facts] == [job_id]
    assert every == {job_id: {"source": "posts", "key": "7"}, other: None}
    assert detail == {"source": "posts", "key": "7"}
    assert cancelled.json["changed"] == 1
    assert [row.status for row in made.rows("SELECT status FROM posts ORDER BY id")] == ["failed", "pending"]
