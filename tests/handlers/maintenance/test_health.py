"""The health check with real servers: green, yellow and red findings, and timeouts."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest

from handlers.maintenance.findings import Finding, Thresholds, worst
from handlers.maintenance.health import run_probes
from mayfly import enqueue
from mayfly.testing import Run, drain
from tests.handlers.mail.servers import PASSWORD, USER, Certificate, make_certificate, post_office
from tests.handlers.providers import Provider, provider
from tests.handlers.rows import insert, opened, select
from tests.receivers import free_port

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
ROOMY = {"HEALTH_DISK": "100.5,101", "HEALTH_MEMORY": "100.5,101", "HEALTH_DATABASE": "20,30"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def healthy(platform: str, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A host with free disks and memory."""
    for name, value in ROOMY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SMTP_ACCOUNTS", raising=False)
    return monkeypatch


@pytest.fixture
def vendor(healthy: pytest.MonkeyPatch) -> Iterator[Provider]:
    with provider() as given:
        healthy.setenv("OPENAI_URL", given.url)
        yield given


def check_health(**payload: Any) -> Run:
    enqueue("health_check", payload)
    return drain(raises=False).runs[-1]


def found(url: str) -> dict[str, tuple[str, str]]:
    """The findings of the last check, by name."""
    rows = select(url, "SELECT findings, worst FROM app_health ORDER BY job_id DESC")
    return {each["what"]: (each["health"], each["text"]) for each in json.loads(rows[0][0])}


@pytest.mark.every_database
def test_a_healthy_host_is_green(healthy: pytest.MonkeyPatch, platform: str) -> None:
    """One row has the findings; a repeated check updates its own row. On every database."""
    run = check_health()
    again = "UPDATE mayfly_jobs SET status = 'pending', finished_at = NULL, attempts = 0"
    with opened(platform) as database:
        database.run(lambda connection: connection.execute(again))
    drained = drain()

    assert (run.kind, run.result, drained.outcomes) == ("done", {"worst": "green"}, {"done": 1})
    assert select(platform, "SELECT job_id, worst FROM app_health") == [(run.job.id, "green")]
    assert {what: health for what, (health, _) in found(platform).items()} == {
        "database": "green", "disk /": "green", "memory": "green",
    }  # fmt: skip


@SQLITE
@pytest.mark.parametrize(
    ("setting", "value", "kind", "what", "health"),
    [
        ("HEALTH_DISK", "0.000001,101", "done", "disk /", "yellow"),
        ("HEALTH_DISK", "0,0.000001", "dead", "disk /", "red"),
        ("HEALTH_MEMORY", "0,0.000001", "dead", "memory", "red"),
        ("HEALTH_DATABASE", "0,0.000001", "dead", "database", "red"),
        ("HEALTH_DISKS", "/ /no/such/disk", "dead", "disk /no/such/disk", "red"),
    ],
)
def test_thresholds_are_settings(
    healthy: pytest.MonkeyPatch, platform: str, setting: str, value: str, kind: str, what: str, health: str
) -> None:
    """Yellow is stored, red makes the job dead, with a row and the reason."""
    healthy.setenv(setting, value)

    run = check_health()

    assert run.kind == kind
    assert found(platform)[what][0] == health
    assert select(platform, "SELECT worst FROM app_health") == [(health,)]
    assert (f"{what}: " in str(run.reason)) == (kind == "dead")


@pytest.mark.every_database
def test_one_problem_is_reported_once(healthy: pytest.MonkeyPatch, platform: str) -> None:
    """However often it is checked; a second problem is another report. On every database."""
    healthy.setenv("HEALTH_DISKS", "/no/such/disk")
    first, *again = [check_health(only=["disk", "memory"]) for _ in range(4)]
    healthy.setenv("HEALTH_MEMORY", "0,0.000001")
    second, last = check_health(), check_health()
    healthy.delenv("HEALTH_DISKS")
    check_health(only=["disk"])

    assert [each.kind for each in (first, *again, second, last)] == ["dead", *["done"] * 3, "dead", "done"]
    assert ("/no/such/disk" in str(first.reason), "/no/such/disk" in str(second.reason)) == (True, False)
    assert "memory" in str(second.reason)
    assert last.result == {"worst": "red"}
    ended = select(platform, "SELECT subject, recovered_at IS NULL FROM app_health_problems ORDER BY subject")
    assert [(subject.split(" on ")[0], bool(lasts)) for subject, lasts in ended] == [
        ("disk /no/such/disk", False), ("memory", True),
    ]  # fmt: skip


@SQLITE
def test_a_problem_that_returns_after_an_hour_is_new(healthy: pytest.MonkeyPatch, platform: str) -> None:
    """Earlier it is the same one. A check of something else does not end it."""
    red, green = "0,0.000001", ROOMY["HEALTH_MEMORY"]
    kinds = []
    for thresholds, minutes_ago in ((red, 0), (green, 30), (red, 0), (green, 61), (red, 0)):
        healthy.setenv("HEALTH_MEMORY", thresholds)
        kinds.append(check_health(only=["memory"]).kind)
        kinds.append(check_health(only=["database"]).kind)
        set_back_recovery(platform, minutes_ago)

    assert kinds[::2] == ["dead", "done", "done", "done", "dead"]
    assert set(kinds[1::2]) == {"done"}


def set_back_recovery(url: str, minutes: int) -> None:
    earlier = f"UPDATE app_health_problems SET recovered_at = datetime(recovered_at, '-{minutes} minutes')"
    with opened(url) as database:
        database.run(lambda connection: connection.execute(earlier))


@SQLITE
@pytest.mark.parametrize("value", ["85", "a,b", "95,85", "nan,nan", "0,0", "-1,5", "1,2,3", "1,inf"])
def test_invalid_thresholds_are_final(healthy: pytest.MonkeyPatch, value: str) -> None:
    """With the name of the setting and an example; reported once, like other problems."""
    healthy.setenv("HEALTH_DISK", value)

    run, again = check_health(only=["disk"]), check_health(only=["disk"])

    rule = "HEALTH_DISK must be two numbers such as 85,95: yellow from the first, red from the second"
    assert (run.kind, run.reason, again.kind) == ("dead", f"red: disk: {rule}", "done")


@SQLITE
@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_mail_accounts_are_logged_in_to_and_nothing_is_sent(
    healthy: pytest.MonkeyPatch, platform: str, certificate: Certificate, tls: str
) -> None:
    """Encrypted as configured; a wrong password is red, and is not shown."""
    scheme = "smtps" if tls == "tls" else "smtp"
    with post_office(certificate, tls=tls) as post:
        where = f"127.0.0.1:{post.port}?ca={certificate.file}&from"
        right = f"{scheme}://{quote(USER, safe='')}:{quote(PASSWORD, safe='')}@{where}=ann@shop.example"
        wrong = f"{scheme}://{quote(USER, safe='')}:wr0ng@{where}=bob@shop.example"
        healthy.setenv("SMTP_ACCOUNTS", f"{right} {wrong}")

        run = check_health(only=["smtp"])

    findings = found(platform)
    assert (post.logins.count(True), False in post.logins, post.taken) == (1, True, [])
    assert [findings[f"mail {name}@shop.example/127.0.0.1:{post.port}"][0] for name in ("ann", "bob")] == [
        "green",
        "red",
    ]
    assert run.kind == "dead"
    assert "535" in str(run.reason)
    assert "wr0ng" not in f"{run.reason} {findings}"


@SQLITE
def test_an_account_in_cooldown_is_red_without_a_login(healthy: pytest.MonkeyPatch, platform: str) -> None:
    """Another failed login could lock it; an unreachable one is red too."""
    port = free_port()
    healthy.setenv(
        "SMTP_ACCOUNTS", f"smtp://127.0.0.1:{port}?from=a@b.example&tls=none smtp://127.0.0.1?from=c@d.example"
    )
    cooldown = {"provider": f"a@b.example/127.0.0.1:{port}", "until_at": "2099-01-01 12:30:00", "reason": "535 no"}
    insert(platform, "app_cooldowns", cooldown)

    run = check_health(only=["smtp"])

    assert run.kind == "dead"
    assert f"a@b.example/127.0.0.1:{port}: its login failed: not used until 12:30 UTC" in str(run.reason)
    assert "c@d.example/127.0.0.1:587: ConnectionRefusedError" in str(run.reason)


@SQLITE
@pytest.mark.parametrize(
    ("status", "mode", "health", "text"),
    [
        (200, "answers", "green", "returned 200"),
        (401, "answers", "green", "returned 401"),
        (404, "answers", "green", "returned 404"),
        (429, "answers", "green", "returned 429"),
        (503, "answers", "red", "returned 503"),
        (200, "garbage", "red", "ProtocolError"),
        (200, "silent", "red", "ReadTimeoutError"),
        (200, "drips", "red", "took more than 1.5 s"),
        (200, "huge", "red", "more than 1,048,576 bytes"),
    ],
)
def test_providers_are_green_if_they_answer(
    vendor: Provider, healthy: pytest.MonkeyPatch, platform: str, status: int, mode: str, health: str, text: str
) -> None:
    """Even with a refusal, since no key is sent."""
    seconds = {"silent": "0.3", "drips": "1.5"}.get(mode, "60")
    healthy.setenv("HEALTH_ANSWER", f"{seconds},{seconds}")
    vendor.status, vendor.mode = status, mode

    run = check_health(only=["providers"])

    assert found(platform)["provider OPENAI_URL"][0] == health
    assert text in found(platform)["provider OPENAI_URL"][1]
    assert run.kind == ("dead" if health == "red" else "done")
    assert [each.headers["Authorization"] for each in vendor.requests] == [None]


@SQLITE
def test_other_providers_can_be_configured(healthy: pytest.MonkeyPatch, platform: str) -> None:
    """HEALTH_PROVIDERS names settings, each with one or more URLs; unset ones are skipped."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(provider()) for _ in range(2))
        healthy.setenv("HEALTH_PROVIDERS", "SCRAPERS NOT_SET")
        healthy.setenv("SCRAPERS", f"{first.url}/?key=s3cret {second.url} http://[")

        run = check_health(only=["providers"])

    healths = {what: health for what, (health, _) in found(platform).items()}
    assert run.reason == "red: provider SCRAPERS 3: is not a URL"
    assert healths == {"provider SCRAPERS 1": "green", "provider SCRAPERS 2": "green", "provider SCRAPERS 3": "red"}
    assert "s3cret" not in str(found(platform))


def test_probes_run_concurrently_with_a_timeout() -> None:
    """A probe without an answer in time is red."""
    over = Event()

    def hang() -> Finding:
        over.wait(60)
        return Finding("late", "green", "")

    findings = list(run_probes({"late": hang, "fine": lambda: Finding("fine", "green", "there")}, 1.0))
    over.set()

    assert findings == [Finding("late", "red", "no response within 1 s"), Finding("fine", "green", "there")]


def test_the_worst_finding_counts() -> None:
    """Without findings it is green."""
    findings = [Finding("a", "green", ""), Finding("b", "red", ""), Finding("c", "yellow", "")]

    assert [worst(findings), worst(findings[::2]), worst([])] == ["red", "yellow", "green"]
    assert [Thresholds(80, 90).judge(figure) for figure in (79.9, 80, 90)] == ["green", "yellow", "red"]
