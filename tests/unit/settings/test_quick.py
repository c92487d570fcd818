"""What is read without pydantic is what load() reads, or nothing at all."""

from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from dotenv.parser import parse_stream
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly.errors import SettingsError
from mayfly.settings import LaneSettings, Settings, load
from mayfly.settings.files import plain_variables
from mayfly.settings.model import NAMES, LaneModel, SettingsModel
from mayfly.settings.names import SECRETS, _close, variable_of
from mayfly.settings.quick import quick_settings
from mayfly.settings.rules import INFINITE, LANE, POOL, SETTINGS, Rule
from mayfly.settings.rules import NAMES as QUICK_NAMES
from tests.examples import in_full

HASH = "$argon2id$v=19$m=65536,t=3,p=4$bWF5Zmx5LW1heWZseS1tYQ$5QyVHmGj0iG9Nd9HtbOxN9Vn6xrOc5pVYk1oYdCVXEY"
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # of the Standard Webhooks' own examples


def quick_in(home: Path, environ: dict[str, str] | None = None, *, dotenv: str = "", toml: str = "") -> Any:
    if dotenv:
        (home / ".env").write_text(dotenv)
    if toml:
        (home / "mayfly.toml").write_text(toml)
    return quick_settings({"MAYFLY_HOME": str(home), **(environ or {})})


def told(settings: Settings) -> str:
    """All fields with their types and the order of the lanes, which == does not look at, and the secrets opened."""
    secrets = {name: value and value.get_secret_value() for name in SECRETS if (value := getattr(settings, name))}
    return repr({**settings._asdict(), **secrets})


# --- the table is the model's -----------------------------------------------------------------------------


def bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Of a number in pydantic's JSON schema, in the words of a Rule."""
    found = next((part for part in schema.get("anyOf", ()) if part.get("type") != "null"), schema)

    def bound(name: str, behind_a_validator: str, none: float) -> float:
        return float(found.get(name, found.get(behind_a_validator, none)))

    return {
        "at_least": bound("minimum", "ge", -INFINITE),
        "at_most": bound("maximum", "le", INFINITE),
        "above": bound("exclusiveMinimum", "gt", -INFINITE),
        "below": bound("exclusiveMaximum", "lt", INFINITE),
        "words": tuple(found.get("enum", ())),
    }


def described(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in ("at_least", "at_most", "above", "below", "words")}


def test_what_leaves_the_model_has_all_its_fields() -> None:
    """In the same order, which is that of `mayfly config` and the docs."""
    assert Settings._fields == tuple(SettingsModel.model_fields)
    assert LaneSettings._fields == tuple(LaneModel.model_fields)
    assert LaneSettings._field_defaults == LaneModel().model_dump()


def test_all_settings_are_known() -> None:
    """Who adds one to the model adds it here, or every idle cycle of those who set it takes the long way."""
    assert (QUICK_NAMES.plain, QUICK_NAMES.lane) == (NAMES.plain, NAMES.lane)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_settings_bounds_are_the_models(name: str) -> None:
    """To the last digit: a value that the model refuses must not pass here."""
    assert described(SETTINGS[name]) == bounds(SettingsModel.model_json_schema()["properties"][name])


@pytest.mark.parametrize("name", LANE)
def test_a_lanes_bounds_are_the_models(name: str) -> None:
    """The same for what is said of one lane."""
    assert described(LANE[name]) == bounds(LaneModel.model_json_schema()["properties"][name])


def test_a_pools_bounds_are_the_models() -> None:
    """And for the cap of a pool."""
    (pool,) = SettingsModel.model_json_schema()["properties"]["pools"]["patternProperties"].values()

    assert described(POOL) == bounds(pool)


def test_the_defaults_are_the_models(tmp_path: Path) -> None:
    """To the type: what is logged is written alike."""
    loaded = load({"MAYFLY_HOME": str(tmp_path)}).settings

    assert told(quick_in(tmp_path)) == told(loaded)
    assert {name: rule.default for name, rule in LANE.items()} == LaneSettings()._asdict()


# --- what is read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environ",
    [
        {"DATABASE_URL": "mysql://mayfly:secret@db/app", "HOST_NAME": "web-1", "LOG_FORMAT": "json"},
        {"LOG_DIR": "/var/log/mayfly", "STATE_DIR": "state", "LOG_TO": "syslog"},
        {"BATCH_SIZE": "10", "MAX_WORKERS": "20", "WORKER_MEMORY": "512M", "MIN_FREE_MEMORY": "1.5G"},
        {"KEEP_DEAD_DAYS": "30", "KEEP_DONE_DAYS": "0.5", "HANDLERS": "handlers, shop.jobs", "SPAWN": "exec"},
        {"LANES__MAIL__MAX_WORKERS": "8", "LANES__MAIL__POOL": "email", "POOLS__EMAIL": "3"},
        {"LANES__MAIL__RANK": "-5", "LANES__MAIL__EXTERNAL": "true"},
        {"LANES__B__RANK": "1", "LANES__A__RANK": "2", "LANES__B__CONCURRENCY": "7"},
        {"LANES__IMPORT__WORKER_TIMEOUT": "3h", "LANES__A__WORKER_TIMEOUT": "90.5"},
        {"LINGER": "55", "POLL_INTERVAL": "0.5", "LANES__MAIL__LINGER": "0"},
        {"SCHEDULE_FILES": "/etc/mayfly/schedule, mine"},
        {"HEARTBEAT_URL": "https://hc-ping.com/0e8d3b2c", "METRICS_TEXTFILE": "metrics/mayfly.prom"},
        {"ALERT_WEBHOOK_URL": "http://[::1]:8080/x?y=1", "ALERT_WEBHOOK_SECRET": WHSEC},
        {"ALERT_MAIL_TO": "ann@example.com, ops@example.com", "ALERT_SMTP_URL": "smtps://a:b@mail.example.com"},
        {"LANES__MAIL__LATENCY_TARGET": "5m", "OTLP_ENDPOINT": "http://127.0.0.1:4318"},
        {"HOOKS_BEFORE": "app.tracing:before", "HOOKS_ON_DEAD": "app.mail:alarm, app.chat:alarm"},
        {"CONSOLE_PASSWORD_HASH": HASH, "CONSOLE_SESSION": "8h", "CONSOLE_ENVIRONMENT": "our staging"},
        {"CONSOLE_ACCOUNTS__ANN__ROLE": "operator", "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH": HASH},
        {"REDACT": "Password, iban"},
    ],
)
def test_what_people_write_is_read(tmp_path: Path, environ: dict[str, str]) -> None:
    """The usual values do not cost a cycle its shortcut."""
    loaded = load({"MAYFLY_HOME": str(tmp_path), **environ}).settings

    assert told(quick_in(tmp_path, environ)) == told(loaded)


def test_all_places_are_read_in_their_order(tmp_path: Path) -> None:
    """The environment before .env before mayfly.toml; a secret also from its file."""
    (tmp_path / "secret").write_text("mysql://mayfly:secret@db/app\n")
    read = quick_in(
        tmp_path,
        {"LOG_DIR": "from_environment"},
        dotenv="# ours\nLOG_DIR=from_dotenv\nexport STATE_DIR='from dotenv'\nDATABASE_URL_FILE=secret\n",
        toml='log_dir = "from_toml"\nstate_dir = "from_toml"\nkeep_done_days = 3\n[lanes.mail]\nrank = 1\n',
    )

    assert told(read) == told(load({"MAYFLY_HOME": str(tmp_path), "LOG_DIR": "from_environment"}).settings)
    assert read.log_dir == tmp_path / "from_environment"
    assert read.state_dir == tmp_path / "from dotenv"
    assert read.database_url.get_secret_value() == "mysql+pymysql://mayfly:secret@db/app"


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    """Not even in a traceback."""
    read = quick_in(tmp_path, {"DATABASE_URL": "mysql://mayfly:xyzzy@db/app"})

    assert "xyzzy" not in f"{read} {read!r} {read.database_url} {read.database_url!r}"


# --- what is not ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environ",
    [
        {"BATCH_SIZE": "0"},
        {"BATCH_SIZE": "5.0"},  # the model takes it; that is for the model to know
        {"BATCH_SIZE": ""},
        {"BATCH_SIZ": "5"},
        {"LANES": "mail"},
        {"DATABASE_URL": "oracle://db"},
        {"DATABASE_URL_FILE": "missing"},
        {"LOG_DIR": "~/logs"},
        {"SCHEDULE_FILES": "schedule,,mine"},
        {"SCHEDULE_FILES": "schedule,~/mine"},
        {"LOG_FORMAT": "TEXT"},
        {"HOST_NAME": "two words"},
        {"WORKER_TIMEOUT": "56"},
        {"MIN_WORKERS": "6"},
        {"BACKOFF_BASE": "7200"},
        {"LANES__MAIL__POOL": "nobody-knows"},
        {"LANES__MAIL__EXTERNAL": "yes"},
        {"POOLS__EMAIL": "0"},
        {"HEARTBEAT_URL": "hc-ping.com/x"},
        {"HEARTBEAT_URL": "https://user:secret@hc-ping.com/x"},
        {"ALERT_WEBHOOK_URL": "https://example.com/hook"},
        {"ALERT_WEBHOOK_SECRET": "whsec_c2hvcnQ="},
        {"ALERT_WEBHOOK_SECRET": WHSEC.removeprefix("whsec_")},
        {"ALERT_MAIL_TO": "ann@example.com,"},
        {"ALERT_MAIL_TO": "Ann <ann@example.com>"},
        {"ALERT_SMTP_URL": "mail.example.com:25"},
        {"METRICS_TEXTFILE": "mayfly.txt"},
        {"LANES__MAIL__LATENCY_TARGET": "0"},
        {"MAYFLY_HOME": "relative"},
        {"CONSOLE_PASSWORD_HASH": "correct horse battery"},
        {"CONSOLE_ACCOUNTS__ANN__ROLE": "viewer"},
        {"CONSOLE_ACCOUNTS__ANN__ROLE": "root", "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH": HASH},
        {"CONSOLE_ACCOUNTS__ANN": "viewer"},
        {"REDACT": "password,,token"},
    ],
)
def test_what_is_wrong_doubtful_or_odd_is_left_to_the_model(tmp_path: Path, environ: dict[str, str]) -> None:
    """None, and not a word: load() finds the words."""
    assert quick_in(tmp_path, environ) is None


@pytest.mark.parametrize(
    "toml",
    [
        "batch_size = true",
        "batch_size = 5.0",
        "max_load = inf",
        f"max_load = {10**400}",
        "log_dir = 5",
        "x = 1",
        "[lanes.'a b']",
        "[console_accounts.ann]",
        "[console_accounts.'a b']",
        "==",
    ],
)
def test_what_a_file_says_must_be_plain_too(tmp_path: Path, toml: str) -> None:
    """TOML has types of its own."""
    assert quick_in(tmp_path, toml=toml) is None


# --- never anything else than load() ----------------------------------------------------------------------

PLAIN_NUMBERS = ["0", "1", "5", "50", "55", "60", "1000", "1001", "10000", "0.5", "1.0", "32M", "1.5G", "64 KiB"]
ODD_NUMBERS = ["5.0", " 5", "5 ", "+5", "-1", "1_000", "٣", "0x10", "1e3", "inf", "nan", "true", "1023", ""]
PLAIN_WORDS = ["text", "json", "file", "stdout", "syslog", "fork", "exec", "logs", "/tmp/x", "a b", "true", "false"]
ODD_WORDS = [
    "TEXT",
    "~",
    "~/x",
    " ",
    "yes",
    "handlers,shop",
    "a..b",
    "https://example.com/x",
    "ann@example.com",
    "x.prom",
    WHSEC,
    HASH,
    "viewer",
    "sqlite:///x.db",
    "sqlite://",
    "mysql://u:p@h/d",
]

numbers = st.sampled_from(PLAIN_NUMBERS + ODD_NUMBERS) | st.integers(-10, 20_000).map(str) | st.floats(0, 99).map(str)
words = st.sampled_from(PLAIN_WORDS + ODD_WORDS)
names = st.sampled_from(
    [variable_of((name,)) for name in sorted(NAMES.plain)]
    + [f"LANES__MAIL__{name.upper()}" for name in sorted(NAMES.lane)]
    + ["CONSOLE_ACCOUNTS__ANN__ROLE", "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH"]
    + ["POOLS__EMAIL", "POOLS__TRUE", "BATCH_SIZ", "PATH"]
)


@given(environ=st.dictionaries(names, numbers | words, max_size=4))
@example({"WORKER_TIMEOUT": "54.999999999", "DISPATCH_TIMEOUT": "55"})
@example({"WORKER_MEMORY": "33554432"})
@example({"MIN_WORKERS": "5", "MAX_WORKERS": "5", "LANES__MAIL__MAX_WORKERS": "4"})
def test_whatever_is_set_it_is_never_read_otherwise(tmp_path: Path, environ: dict[str, str]) -> None:
    """Where there are quick settings, load() has the same, nothing to complain of and nothing to warn about."""
    quick = quick_in(tmp_path, environ)
    if quick is None:
        return

    loaded = load({"MAYFLY_HOME": str(tmp_path), **environ})

    assert told(quick) == told(loaded.settings)
    assert loaded.warnings == ()


toml_names = st.sampled_from(
    [*sorted(NAMES.plain), *(f"lanes.mail.{name}" for name in sorted(NAMES.lane)), "pools.email"]
)
toml_values = st.one_of(
    st.booleans().map(lambda value: str(value).lower()),
    st.integers(-5, 2000).map(str),
    st.floats(-1, 100).map(str),
    st.sampled_from(['"5"', '"text"', '"file"', '"512M"', "[]", '["handlers"]', "{}", "nan", "inf", "1979-05-27"]),
)


@given(st.dictionaries(toml_names, toml_values, max_size=3))
def test_whatever_a_file_says_it_is_never_read_otherwise(tmp_path: Path, values: dict[str, str]) -> None:
    """The same for the types of TOML."""
    quick = quick_in(tmp_path, toml="\n".join(["", *(f"{name} = {value}" for name, value in values.items())]) + "\n")
    if quick is None:
        return
    try:
        loaded = load({"MAYFLY_HOME": str(tmp_path)})
    except SettingsError as error:
        raise AssertionError(values) from error

    assert told(quick) == told(loaded.settings)


# --- .env -------------------------------------------------------------------------------------------------

PLAIN_LINES = ["A=1", "B='x y'", 'C="a#b"', "E=#x", "# a=b", "L=a'b", "N=", "O=''", "P=$A", "export H=1", "export=1"]
ODD_LINES = [
    "D=a # b",
    "F= x",
    "G",
    "export  H=1",
    "I=\\n",
    "J='a\\'b'",
    'K="a\\nb"',
    "M='a",
    "'Q'=1",
    "\ufeffR=1",
    "é=1",
]

written_lines = st.builds("{}={}".format, st.sampled_from(["A", "export B", "C_1", "é", "D "]), st.text(max_size=12))
wild_lines = st.text("A=' \"#\\\n\t\x0b\x1c\u2028", max_size=12)
dotenv_texts = st.lists(st.sampled_from(PLAIN_LINES + ODD_LINES) | written_lines | wild_lines, max_size=5).map(
    "\n".join
)


@in_full(500)
@given(dotenv_texts)
def test_a_plain_dotenv_file_is_read_as_its_parser_reads_it(text: str) -> None:
    """Or not at all."""
    text = StringIO(text, newline=None).read()  # as a file is read: every kind of line end becomes the same one
    plain = plain_variables(text)
    if plain is None:
        return

    bindings = list(parse_stream(StringIO(text)))

    assert not any(binding.error for binding in bindings)
    assert plain == {each.key: each.value or "" for each in bindings if each.key is not None}


def test_the_usual_lines_are_plain() -> None:
    """What most files have needs no parser."""
    url = "DATABASE_URL=mysql://u:p%40#$@h/d"
    text = f"# settings\n\nBATCH_SIZE=5\nexport LOG_DIR='/var/log/my app'\n{url}\nA=\"b c\"\n"

    assert plain_variables(text) == {
        "BATCH_SIZE": "5",
        "LOG_DIR": "/var/log/my app",
        "DATABASE_URL": "mysql://u:p%40#$@h/d",
        "A": "b c",
    }


# --- names ------------------------------------------------------------------------------------------------

words_like_ours = st.one_of(
    st.sampled_from(sorted(NAMES.plain)).map(str.upper),
    st.text("ABKLMSTZ_", max_size=14),
    st.sampled_from(["BATCH_SIZ", "BATHC_SIZE", "LANE", "LAENS", "LOGNAME", "HOSTNAME", "SHELL", "KEEP_DONE_DAY"]),
)


@given(words_like_ours, st.sampled_from([0.6, 0.85, 0.9]))
def test_close_names_are_those_that_difflib_finds(word: str, cutoff: float) -> None:
    """It is only asked less often."""
    known = [variable_of((name,)) for name in sorted(NAMES.plain)]

    assert _close(word, known, cutoff) == get_close_matches(word, known, cutoff=cutoff)
