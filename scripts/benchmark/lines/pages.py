"""Every page of the real web console over HTTP, on a table of ten million rows: each within a tenth of a second."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from argon2 import PasswordHasher
from sqlalchemy import text

from mayfly.clock import milliseconds, monotonic, pause
from mayfly.queue.prune import EIGHT_HOURS, MINUTE, QUARTER, TWO_HOURS
from mayfly.stats.histograms import BOUNDS, histogram_text
from mayfly.stats.history import CYCLE, begin_of
from scripts.benchmark.figures import Figure, Finding
from scripts.benchmark.lab import Lab
from scripts.benchmark.lines.views import GOAL, LARGE, LOOKS_PER_RUN, fill
from scripts.benchmark.stage import Stage
from tests.servers.private import free_port

PASSWORD = "only for this hour"  # noqa: S105 - of a console that lives for a minute
SPANS = {MINUTE: 26 * 60, QUARTER: 49 * 4, TWO_HOURS: 8 * 12, EIGHT_HOURS: 90 * 3}  # and how many are kept at most
OUTCOMES = ("done", "failed", "timed out", "dead", CYCLE)
LIMITS = 10_000
SCHEDULES = 50
START_SECONDS, LOOK_SECONDS = 30.0, 0.05


def measure(lab: Lab) -> Iterator[Finding]:
    rows = lab.scaled(LARGE)
    with lab.stage() as stage:
        fill(lab, stage, rows)
        fill_what_else_is_shown(stage)
        with serving(stage) as port, closing(Visitor(port)) as visitor:
            for name, address in addresses(rows).items():
                lab.say(f"{name} at {rows:,} rows")
                taken = visitor.timed(address, lab.times * LOOKS_PER_RUN)
                yield Figure(f"page: {name} at {rows:,} rows", "ms", taken, goal=GOAL)


def addresses(rows: int) -> Mapping[str, str]:
    return {
        **{f"overview, {each}": f"/?range={each}" for each in ("1h", "24h", "7d", "30d")},
        "jobs": "/jobs",
        "jobs that are done": "/jobs?status=done",
        "dead jobs of a lane": "/jobs?status=dead&lane=default",
        "jobs by error": "/jobs?error=error-1",
        "jobs by a text that is not there": "/jobs?text=nowhere",
        "jobs by a payload field that is not there": "/jobs?field=customer&value=42",
        "one job": f"/jobs/{max(1, rows // 2)}",
        "asking before all pending are cancelled": "/jobs/confirm?all=cancel&lane=default&status=pending",
        "dead": "/dead",
        "lanes": "/lanes",
        "asking before a pause": "/pause?kind=lane&name=default",
        "schedules": "/schedules",
        "asking before a schedule is run": "/schedules/ask?verb=run&name=often-1",
        "cycles": "/cycles",
        "runners": "/runners",
        "limits": "/limits",
        "audit": "/audit",
        "settings": "/settings",
        "enqueue": "/enqueue",
    }


class Visitor:
    """Logged in, on a connection that stays open, as a browser's does."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", "/login", urlencode({"name": "admin", "password": PASSWORD}), form)
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = (answer.headers["set-cookie"] or "").partition(";")[0]

    def close(self) -> None:
        self._connection.close()

    def timed(self, address: str, times: int) -> tuple[float, ...]:
        """Milliseconds from the request to the last byte of the page; the first is not counted."""
        self._get(address)
        taken = []
        for _ in range(times):
            started = monotonic()
            self._get(address)
            taken.append((monotonic() - started) * 1000)
        return tuple(taken)

    def _get(self, address: str) -> None:
        self._connection.request("GET", address, headers={"Cookie": self._cookie})
        answer = self._connection.getresponse()
        page = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{address} answered {answer.status}: {page[-500:]!r}")


@contextmanager
def serving(stage: Stage) -> Iterator[int]:
    port = free_port()
    settings = {
        "CONSOLE_PORT": str(port),
        "CONSOLE_PASSWORD_HASH": PasswordHasher().hash(PASSWORD),
        "CONSOLE_RATE": "100000",
        "LANES__DEFAULT__LATENCY_TARGET": "5m",
    }
    with stage.started("-m", "console", settings=settings) as is_alive:
        deadline = monotonic() + START_SECONDS
        while not _answers(port):
            if not is_alive() or monotonic() > deadline:
                raise AssertionError("the console did not start")
            pause(LOOK_SECONDS)
        yield port


def _answers(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status == 200
        except OSError:
            return False


def fill_what_else_is_shown(stage: Stage) -> None:
    """A month of figures, keys of limits, schedules."""
    (stage.home / "cron.d").mkdir()
    lines = [f"*/5 * * * * nothing name=often-{number}\n" for number in range(SCHEDULES)]
    (stage.home / "cron.d" / "schedule").write_text("".join(lines))
    with stage.connect() as connection:
        for statement in (*_history(stage, datetime.now(UTC)), _limits(stage)):
            connection.execute(text(statement), {})
    stage.rest()


def _history(stage: Stage, now: datetime) -> Iterator[str]:
    histogram = histogram_text(dict.fromkeys(BOUNDS, 1000)).replace(":", "\\:")  # or it would be a parameter
    for span, number in SPANS.items():
        first = begin_of(milliseconds(now), span) - (number - 1) * span * 1000
        numbers = stage.engine.numbers(0, number - 1)
        for outcome in OUTCOMES:
            begins = f"{first} + n * CAST({span * 1000} AS DECIMAL(9))"
            row = f"{span}, {begins}, '{outcome}', 1000, '{histogram}', '{histogram}'"
            columns = "span, begins, outcome, jobs, durations, waits"
            yield f"INSERT INTO mayfly_history ({columns}) SELECT {row} FROM {numbers}"


def _limits(stage: Stage) -> str:
    at = stage.engine.moment(datetime.now(UTC) + timedelta(hours=1))
    row = f"CAST(n AS CHAR(9)), 'day', 100, 100 - n % 100, {at}"
    return (
        "INSERT INTO mayfly_limits (limit_key, span, most, used, opens_at)"
        f" SELECT {row} FROM {stage.engine.numbers(1, LIMITS)}"
    )
