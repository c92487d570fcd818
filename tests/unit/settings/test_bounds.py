"""The values that each setting accepts, and the sentence for those that it does not."""

from pathlib import Path

import pytest

from mayfly.settings.model import PLAIN
from tests.unit.settings.factories import HASH, WHSEC, load_in, origin_of, problem_in, settings_in

MIB = 1024**2


def test_without_any_configuration_the_defaults_apply(tmp_path: Path) -> None:
    """They are those of the design."""
    settings = settings_in(tmp_path)

    assert (settings.batch_size, settings.max_workers, settings.min_workers) == (5, 5, 1)
    assert (settings.worker_timeout, settings.dispatch_timeout) == (50, 55)
    assert (settings.max_attempts, settings.backoff_base, settings.backoff_cap) == (5, 1, 3600)
    assert (settings.worker_memory, settings.min_free_memory) == (None, 64 * MIB)
    assert (settings.keep_done_days, settings.keep_dead_days) == (7, None)
    assert settings.payload_limit == 65536
    assert settings.handlers == ()


@pytest.mark.parametrize("name", ["BATCH_SIZE", "MAX_WORKERS", "MAX_ATTEMPTS"])
@pytest.mark.parametrize("value", ["0", "-1", "1001", "abc", "1.5", "true", "1e3", "None"])
def test_a_count_is_an_integer_from_1_to_1000(tmp_path: Path, name: str, value: str) -> None:
    """The sentence has the name, the value, its source and the bounds."""
    problem = problem_in(tmp_path, {name: value})

    assert problem == f"{name}={value} (environment): must be an integer from 1 to 1000"


@pytest.mark.parametrize("value", ["true", "[5]", "{ a = 5 }", "5.5", "nan", "1979-05-27"])
def test_a_count_in_toml_is_an_integer(tmp_path: Path, value: str) -> None:
    """TOML has types: true is not 1. The sentence uses the file's own spelling."""
    problem = problem_in(tmp_path, toml=f"batch_size = {value}")

    assert problem.startswith("batch_size=")
    assert problem.endswith(f" ({tmp_path}/mayfly.toml): must be an integer from 1 to 1000")


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("MIN_WORKERS", "0", "an integer from 1 to MAX_WORKERS"),
        ("HOST_MAX_WORKERS", "10001", "an integer from 1 to 10000"),
        ("WORKER_TIMEOUT", "0.9", "a number of seconds from 1, below DISPATCH_TIMEOUT"),
        ("WORKER_TIMEOUT", "inf", "a number of seconds from 1, below DISPATCH_TIMEOUT"),
        ("DISPATCH_TIMEOUT", "60", "a number of seconds above WORKER_TIMEOUT, below 60"),
        ("WORKER_MEMORY", "31M", "bytes, or a size such as 512M or 1.5G, at least 32M"),
        ("MIN_FREE_MEMORY", "-1", "bytes, or a size such as 512M or 1.5G, at least 0"),
        ("PAYLOAD_LIMIT", "1023", "bytes, or a size such as 512M or 1.5G, from 1K to 16M"),
        ("PAYLOAD_LIMIT", "17M", "bytes, or a size such as 512M or 1.5G, from 1K to 16M"),
        ("MAX_LOAD", "-0.1", "a number, 0 or more"),
        ("MAX_LOAD", "nan", "a number, 0 or more"),
        ("HOOKS_BEFORE", "tracing", "module:function, or several separated by commas"),
        ("HOOKS_AFTER", "app.tracing:after,", "module:function, or several separated by commas"),
        ("HOOKS_ON_DEAD", "app/alerts.py:dead", "module:function, or several separated by commas"),
        ("HOOKS_ON_DEAD", "app.alerts:Pager.dead", "module:function, or several separated by commas"),
        ("HANDLERS", "a,,b", "dotted module names, separated by commas"),
        ("HANDLERS", "jobs/mail.py", "dotted module names, separated by commas"),
        ("LOG_FORMAT", "JSON", "text or json"),
        ("LOG_TO", "stderr", "file, stdout or syslog"),
        ("SPAWN", "thread", "fork or exec"),
        ("HOST_NAME", "a b", "1 to 64 printable characters without whitespace"),
        ("HOST_NAME", "h" * 65, "1 to 64 printable characters without whitespace"),
        ("BACKOFF_BASE", "0", "a number of seconds, more than 0"),
        ("KEEP_DONE_DAYS", "0", "a number of days, more than 0"),
        ("KEEP_CANCELLED_DAYS", "-7", "a number of days, more than 0"),
        ("KEEP_DEAD_DAYS", "0", "a number of days, more than 0"),
        ("KEEP_CYCLES_DAYS", "x", "a number of days, more than 0"),
        ("KEEP_RUNNERS_DAYS", "inf", "a number of days, more than 0"),
        ("KEEP_AUDIT_DAYS", "0", "a number of days, more than 0"),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_the_rule(tmp_path: Path, name: str, value: str, rule: str) -> None:
    """Every setting states what it allows."""
    problem = problem_in(tmp_path, {name: value})

    assert problem.startswith(f"{name}={value[:60]}")
    assert problem.endswith(f" (environment): must be {rule}")


@pytest.mark.parametrize("name", PLAIN)
def test_an_empty_value_is_refused(tmp_path: Path, name: str) -> None:
    """NAME= does not mean the default; the advice is to give a value or to unset it."""
    problem = problem_in(tmp_path, {name.upper(): " "})

    assert problem.startswith(f"{name.upper()}= (environment): is empty; set it to ")
    assert problem.endswith(", or unset it")


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("33554432", 32 * MIB),
        ("512M", 512 * MIB),
        ("512m", 512 * MIB),
        ("300MB", 300 * MIB),
        ("256MiB", 256 * MIB),
        ("1.5G", 1536 * MIB),
        (" 64 M ", 64 * MIB),
        ("65536K", 64 * MIB),
    ],
)
def test_a_size_has_units_of_1024(tmp_path: Path, written: str, count: int) -> None:
    """M, MB and MiB are the same, as for systemd and Docker."""
    assert settings_in(tmp_path, {"WORKER_MEMORY": written}).worker_memory == count


@pytest.mark.parametrize("written", ["64.5", "1,5G", "1e9", "M", "64X", "0x4000000", "١٢M"])
def test_an_invalid_size_is_refused(tmp_path: Path, written: str) -> None:
    """A fraction of a byte means that the unit was forgotten."""
    assert f"MIN_FREE_MEMORY={written} (environment): must be bytes" in problem_in(
        tmp_path, {"MIN_FREE_MEMORY": written}
    )


def test_a_size_in_toml_can_be_a_number(tmp_path: Path) -> None:
    """It counts bytes; 0 disables the check."""
    settings = settings_in(tmp_path, toml='worker_memory = 67108864\nmin_free_memory = 0\npayload_limit = "1M"')

    assert (settings.worker_memory, settings.min_free_memory, settings.payload_limit) == (64 * MIB, 0, MIB)


@pytest.mark.parametrize("toml", ['handlers = "jobs, app.mail"', 'handlers = ["jobs", "app.mail"]'])
def test_handlers_in_toml_are_a_list_or_a_string(tmp_path: Path, toml: str) -> None:
    """Both mean the same."""
    assert settings_in(tmp_path, toml=toml).handlers == ("jobs", "app.mail")


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"WORKER_TIMEOUT": "55"}, "WORKER_TIMEOUT=55 (environment) and DISPATCH_TIMEOUT=55 (default)"),
        ({"WORKER_TIMEOUT": "70"}, "WORKER_TIMEOUT=70 (environment) and DISPATCH_TIMEOUT=55 (default)"),
        ({"DISPATCH_TIMEOUT": "40.5"}, "WORKER_TIMEOUT=50 (default) and DISPATCH_TIMEOUT=40.5 (environment)"),
    ],
)
def test_guards_in_the_wrong_order_are_both_named(tmp_path: Path, environ: dict[str, str], named: str) -> None:
    """Worker < dispatcher < 60; the sentence shows the default too."""
    problem = problem_in(tmp_path, environ)

    assert problem.startswith(f"{named}: must be WORKER_TIMEOUT < DISPATCH_TIMEOUT < 60")


@pytest.mark.parametrize(
    ("environ", "rule"),
    [
        ({"MIN_WORKERS": "6"}, "must be MIN_WORKERS <= MAX_WORKERS"),
        ({"BACKOFF_CAP": "0.5"}, "must be BACKOFF_BASE <= BACKOFF_CAP"),
    ],
)
def test_pairs_in_the_wrong_order_are_refused(tmp_path: Path, environ: dict[str, str], rule: str) -> None:
    """A lower bound above its upper bound makes no sense."""
    assert problem_in(tmp_path, environ).endswith(rule)


def test_pairs_can_be_equal(tmp_path: Path) -> None:
    """Except for the guards."""
    settings = settings_in(tmp_path, {"MIN_WORKERS": "5", "BACKOFF_BASE": "3600"})

    assert (settings.min_workers, settings.backoff_base) == (5, 3600)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """One line each, of every kind, so one attempt shows them all."""
    problem = problem_in(
        tmp_path,
        {"BATCH_SIZE": "0", "MAX_WORKERS": ""},
        dotenv="MAX_ATTEMPTS=many\nnonsense line",
        toml="batchsize = 3",
    )

    assert [line.partition(" ")[0] for line in problem.splitlines()] == [
        f"{tmp_path}/.env,",
        "MAX_WORKERS=",
        "BATCH_SIZE=0",
        "MAX_ATTEMPTS=many",
        "batchsize",
    ]


def test_a_value_of_many_lines_is_shown_on_one_short_line(tmp_path: Path) -> None:
    """One problem, one line."""
    problem = problem_in(tmp_path, {"BATCH_SIZE": "a\nb" * 1000})

    assert len(problem.splitlines()) == 1
    assert len(problem) < 150


def test_settings_are_immutable(tmp_path: Path) -> None:
    """Values loaded at the start of a process apply until its end."""
    settings = settings_in(tmp_path)

    with pytest.raises(AttributeError, match="can't set attribute"):
        settings.batch_size = 7  # type: ignore[misc]


def test_a_host_name_that_is_invalid_is_reported_with_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is the system's name; if it is invalid, the sentence names the setting."""
    monkeypatch.setattr("socket.gethostname", lambda: "two words")

    assert problem_in(tmp_path).startswith("HOST_NAME (default): must be 1 to 64 printable characters")


def test_all_pods_of_a_cluster_are_one_host(tmp_path: Path) -> None:
    """A pod's own name is that of one minute; a name in any source is used instead."""
    in_a_pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    loaded = load_in(tmp_path, in_a_pod)

    assert loaded.settings.host_name == "kubernetes"
    assert origin_of(loaded, "HOST_NAME").source == "environment, KUBERNETES_SERVICE_HOST"
    assert settings_in(tmp_path, {**in_a_pod, "HOST_NAME": "blue"}).host_name == "blue"
    assert settings_in(tmp_path, in_a_pod, toml='host_name = "green"').host_name == "green"


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [
        ("HANDLERS", "handlers, shop.jobs", ("handlers", "shop.jobs")),
        ("HOOKS_ON_DEAD", "app.mail:alarm, app.chat:alarm", ("app.mail:alarm", "app.chat:alarm")),
        ("ALERT_MAIL_TO", "ann@example.com, ops@example.com", ("ann@example.com", "ops@example.com")),
        ("SCHEDULE_FILES", "/etc/mayfly/schedule, /mine", (Path("/etc/mayfly/schedule"), Path("/mine"))),
        ("METRICS_TEXTFILE", "/var/lib/mayfly.prom", Path("/var/lib/mayfly.prom")),
        ("OTLP_ENDPOINT", "http://127.0.0.1:4318", "http://127.0.0.1:4318"),
        ("CONSOLE_SESSION", "8h", 28_800.0),
        ("CONSOLE_SESSION", "90.5s", 90.5),
        ("CONSOLE_PREFIX", "/tools/mayfly", "/tools/mayfly"),
        ("CONSOLE_ENVIRONMENT", "our staging", "our staging"),
        ("REDACT", "Password, iban", ("password", "iban")),
        ("BATCH_SIZE", " 5", 5),
        ("KEEP_DONE_DAYS", "0.5", 0.5),
    ],
)
def test_a_value_is_parsed_by_its_type(tmp_path: Path, name: str, written: str, read: object) -> None:
    """Lists, durations, paths, and numbers with white space around them."""
    assert getattr(settings_in(tmp_path, {name: written}), name.lower()) == read


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("HEARTBEAT_URL", "https://hc-ping.com/0e8d3b2c"),
        ("ALERT_WEBHOOK_SECRET", WHSEC),
        ("ALERT_SMTP_URL", "smtps://a:b@mail.example.com"),
        ("CONSOLE_PASSWORD_HASH", HASH),
    ],
)
def test_a_secret_is_unchanged_and_not_shown(tmp_path: Path, name: str, written: str) -> None:
    """Not even in a traceback."""
    settings = settings_in(tmp_path, {name: written})

    assert getattr(settings, name.lower()).get_secret_value() == written
    assert written not in f"{settings} {settings!r}"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("HEARTBEAT_URL", "hc-ping.com/x"),
        ("HEARTBEAT_URL", "https://user:secret@hc-ping.com/x"),
        ("OTLP_ENDPOINT", "http://127.0.0.1:4318/#x"),
        ("ALERT_WEBHOOK_SECRET", "whsec_c2hvcnQ="),
        ("ALERT_WEBHOOK_SECRET", WHSEC.removeprefix("whsec_")),
        ("ALERT_MAIL_TO", "ann@example.com,"),
        ("ALERT_MAIL_TO", "Ann <ann@example.com>"),
        ("ALERT_MAIL_FROM", "a@b@c"),
        ("ALERT_SMTP_URL", "mail.example.com:25"),
        ("ALERT_SMTP_URL", "smtp://ann:sécret@mail.example.com"),
        ("METRICS_TEXTFILE", "mayfly.txt"),
        ("LANES__MAIL__LATENCY_TARGET", "0"),
        ("LANES__MAIL__WORKER_TIMEOUT", "169h"),
        ("LANES__MAIL__LINGER", "56"),
        ("POLL_INTERVAL", "0.01"),
        ("CONSOLE_PASSWORD_HASH", "correct horse battery"),
        ("CONSOLE_PREFIX", "mayfly/"),
        ("CONSOLE_PORT", "65536"),
        ("CONSOLE_SESSION", "1y"),
        ("CONSOLE_ENVIRONMENT", "e" * 33),
        ("REDACT", "password,,token"),
        ("SCHEDULE_FILES", "schedule,,mine"),
    ],
)
def test_a_value_in_the_wrong_format_is_refused(tmp_path: Path, name: str, written: str) -> None:
    """With the rule of its setting."""
    assert f"{name}" in (problem := problem_in(tmp_path, {name: written}))
    assert " (environment): must be " in problem


@pytest.mark.parametrize(
    "toml", ["max_load = inf", f"max_load = {10**400}", "log_dir = 5", "database_url = 5", "handlers = [5]"]
)
def test_a_toml_value_of_the_wrong_type_is_refused(tmp_path: Path, toml: str) -> None:
    """TOML has types of its own."""
    assert "mayfly.toml): must be " in problem_in(tmp_path, toml=toml)


def test_an_alert_webhook_needs_a_signing_key(tmp_path: Path) -> None:
    """Without a signature a receiver could not detect forged alerts."""
    assert "needs ALERT_WEBHOOK_SECRET" in problem_in(tmp_path, {"ALERT_WEBHOOK_URL": "https://example.com/hook"})
