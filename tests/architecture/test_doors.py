"""One door each to the clock, the environment, the settings, the exit and the database's name."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import Source, sources, told, without

# Handlers are jobs, not machinery: they may sleep, read their environment and end a process over it.
MACHINERY = ("mayfly", "dispatcher", "runner", "console")
CLOCK = "mayfly/clock.py"
DIALECT = "mayfly/dialect/"

# --- what is looked for -----------------------------------------------------------------------------------

CLOCK_READINGS = (
    *(f"{module}.{name}" for module in ("datetime.datetime", "datetime") for name in ("now", "utcnow", "today")),
    *("datetime.date.today", "date.today"),
    *("sqlalchemy.func.now", "sqlalchemy.func.current_timestamp", "func.now", "asyncio.sleep"),
)


def clock_readings(source: Source) -> Iterator[str]:
    for each in source.imports:
        if each.top == "time":
            yield source.at(each.line, "imports time; ask mayfly.clock")
    for name, node in source.uses():
        if name in CLOCK_READINGS:
            yield source.at(node.lineno, f"reads the clock ({name}); ask mayfly.clock")


def environment_readings(source: Source) -> Iterator[str]:
    for name, node in source.uses():
        if name in ("os.environ", "os.environb", "os.getenv", "os.putenv", "os.unsetenv"):
            yield source.at(node.lineno, f"{name}: only the settings read the environment")


def is_settings(source: Source) -> bool:
    """mayfly/settings/ or, as it was before, mayfly/settings_*.py."""
    return source.path.startswith(("mayfly/settings/", "mayfly/settings.py", "mayfly/settings_"))


def is_cli(source: Source) -> bool:
    return source.path.endswith(("/cli.py", "/__main__.py"))


BUILDERS = ("Settings", "load", "load_settings", "quick_settings")


def settings_built(source: Source) -> Iterator[str]:
    for name, call in source.calls():
        if name.startswith("mayfly.settings") and name.rpartition(".")[2] in BUILDERS:
            yield source.at(call.lineno, "builds Settings; take them as an argument, only cli.py loads them")


EXITS = ("sys.exit", "os._exit", "os.abort", "exit", "quit")


def exits_called(source: Source) -> Iterator[str]:
    raised = ((name, node) for name, node in source.uses() if name == "SystemExit")
    called = ((name, call) for name, call in source.calls() if name in EXITS)
    for name, node in (*raised, *called):
        yield source.at(node.lineno, f"{name}: only cli.py and commandline.py end the process")


DIALECT_NAMES = {"sqlite", "mysql", "mariadb", "postgresql", "postgres"}


def dialect_questions(source: Source) -> Iterator[ast.expr]:
    """Where it is asked which database this is."""
    for node in source.nodes:
        if isinstance(node, ast.Compare) and any(map(_names_dialect, [node.left, *node.comparators])):
            yield node
        if isinstance(node, ast.Call) and _looks_at_the_beginning(node):
            yield node
        if isinstance(node, ast.MatchValue) and _names_dialect(node.value):
            yield node.value


def _looks_at_the_beginning(call: ast.Call) -> bool:
    """As in `url.startswith("mysql+")`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "startswith":
        return False
    texts = (node.value for each in call.args for node in ast.walk(each) if isinstance(node, ast.Constant))
    return any(isinstance(text, str) and re.match(r"\w*", text)[0] in DIALECT_NAMES for text in texts)  # type: ignore[index]


def _names_dialect(operand: ast.expr) -> bool:
    if isinstance(operand, ast.Tuple | ast.List | ast.Set):
        return any(map(_names_dialect, operand.elts))
    if isinstance(operand, ast.Constant):
        return operand.value in DIALECT_NAMES
    if isinstance(operand, ast.Call) and isinstance(operand.func, ast.Attribute):
        return operand.func.attr in ("get_backend_name", "get_dialect", "get_driver_name")
    if isinstance(operand, ast.Attribute) and operand.attr in ("name", "driver"):
        owner = operand.value
        return (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")).endswith("dialect")
    return False


def unexplained_differences(source: Source) -> Iterator[str]:
    """A question whose function, or whose lines just above, have no comment that says what differs."""
    lines = source.text.splitlines()
    for node in dialect_questions(source):
        around = [each for each in source.functions if each.lineno <= node.lineno <= (each.end_lineno or 0)]
        first = max((each.lineno for each in around), default=node.lineno - 4)
        above = lines[max(0, first - 1) : node.lineno]
        if not any(line.strip().startswith("# Differs because") for line in above):
            yield source.at(node.lineno, 'asks which database this is without a comment "# Differs because …"')


def said_otherwise(source: Source, base: Source) -> Iterator[str]:
    """What a dialect says instead of what all others say, without a comment that says why."""
    lines = source.text.splitlines()
    shared = {name for name, _ in said_for_all(base)}
    for name, node in said_in_classes(source):
        own = lines[node.lineno - 2 : node.end_lineno]
        if name in shared and not any("# Differs because" in line for line in own):
            yield source.at(node.lineno, f'says {name} otherwise without a comment "# Differs because …"')


def said_for_all(base: Source) -> Iterator[tuple[str, ast.stmt]]:
    """Without what each must say for itself: that has no value here, or raises NotImplementedError."""
    for name, node in said_in_classes(base):
        words = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if "NotImplementedError" not in words and not (isinstance(node, ast.AnnAssign) and node.value is None):
            yield name, node


def said_in_classes(source: Source) -> Iterator[tuple[str, ast.stmt]]:
    for each in source.nodes:
        if not isinstance(each, ast.ClassDef) or not _is_dialect(source, each):
            continue
        for node in each.body:
            if isinstance(node, ast.FunctionDef):
                yield node.name, node
            elif isinstance(node, ast.Assign):
                yield from ((target.id, node) for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id, node


def _is_dialect(source: Source, given: ast.ClassDef) -> bool:
    names = [given.name, *(source.dotted(each).rpartition(".")[2] for each in given.bases)]
    return "Dialect" in names


# --- the rules --------------------------------------------------------------------------------------------


def test_one_module_reads_the_clock() -> None:
    """The database's time rules, and a test can move it, because nobody goes past mayfly/clock.py."""
    found = [each for source in sources(*MACHINERY) if source.path != CLOCK for each in clock_readings(source)]

    assert not found, told(found)


def test_only_the_settings_read_the_environment() -> None:
    """What can be tuned is in one table, checked, and shown by `mayfly config`."""
    exceptions = {
        "dispatcher/spawn.py": "posix_spawn must be given the environment that a runner inherits",
        "mayfly/cli/dev.py": "the dispatcher that it starts inherits the environment, with its log on the terminal",
        "mayfly/format.py": "NO_COLOR is every program's, not a setting of ours",
    }
    found = [
        each for source in sources(*MACHINERY) if not is_settings(source) for each in environment_readings(source)
    ]

    assert not without(found, exceptions), told(without(found, exceptions))


def test_only_the_command_line_builds_settings() -> None:
    """Everything else takes them as an argument, and can be tested with others."""
    exceptions = {
        "mayfly/client.py": "an application that enqueues has no command line of ours",
        "mayfly/cli/doctor.py": "settings that cannot be loaded are the first thing it reports",
    }
    inside = (source for source in sources() if not (is_settings(source) or is_cli(source)))
    found = [each for source in inside for each in settings_built(source)]

    assert not without(found, exceptions), told(without(found, exceptions))


def test_only_the_command_line_ends_the_process() -> None:
    """Everything else returns its exit code, or raises."""
    exceptions = {
        "mayfly/process/command_line.py": "how every command ends",
        "mayfly/monitoring/hooks.py": "catches SystemExit: as registry.py does",
        "mayfly/testing/runtime.py": "knows SystemExit, the job's failure, from Ctrl-C, the test's end",
        "mayfly/registry.py": "catches SystemExit: a handler module that exits must not end the runner",
        "runner/hooks.py": "catches SystemExit: a hook that exits must not end the runner",
        "mayfly/process/fork.py": "a forked child must never return into the stack it was forked from",
    }
    inside = (source for source in sources(*MACHINERY) if not is_cli(source))
    found = [each for source in inside for each in exits_called(source)]

    assert not without(found, exceptions), told(without(found, exceptions))


def test_one_package_asks_which_database_this_is() -> None:
    """A new database is one more file there."""
    values = next(each.path for each in sources("mayfly") if each.path.endswith(("settings/values.py", "_values.py")))
    exceptions = {values: "a URL is read, and a SQLite path made absolute, before there is any dialect"}
    inside = (each for each in sources() if not each.path.startswith((DIALECT, "mayfly/migrations/")))
    found = [
        source.at(node.lineno, "asks which database this is; only mayfly/dialect/ does")
        for source in inside
        for node in dialect_questions(source)
    ]

    assert not without(found, exceptions), told(without(found, exceptions))


def test_every_difference_between_databases_is_explained() -> None:
    """Each branch stands under a comment that begins "Differs because"."""
    package = [each for each in sources("mayfly") if each.path.startswith(DIALECT)]
    (base,) = (each for each in package if each.path == f"{DIALECT}base.py")
    found = [each for source in package for each in unexplained_differences(source)]
    found += [each for source in package if source is not base for each in said_otherwise(source, base)]

    assert len(package) > 5
    assert {"begin", "bound", "rendered", "upsert", "claim_lock"} <= {name for name, _ in said_for_all(base)}
    assert not found, told(found)


# --- modules that decide ----------------------------------------------------------------------------------

PURE = (
    "dispatcher/exits.py",
    "dispatcher/plan.py",
    "dispatcher/summary.py",
    "mayfly/monitoring/alerts.py",
    "mayfly/queue/policy.py",
    "mayfly/queue/outcome.py",
    "mayfly/schedules/fire.py",
    "mayfly/schedules/parse.py",
    "mayfly/schedules/cron.py",
    "mayfly/schedules/parse.py",
    "mayfly/schedules/parse.py",
    "mayfly/schedules/cron.py",
    "mayfly/schedules/cron.py",
    "mayfly/stats/histograms.py",
    "mayfly/job.py",
    "mayfly/queue/policy.py",
    "mayfly/queue/failure.py",
    "runner/claims.py",
)
PLAIN_PYTHON = {
    "bisect",
    "collections",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "hashlib",
    "itertools",
    "math",
}
PLAIN_PYTHON |= {"difflib", "re", "shlex", "traceback", "types", "typing", "zoneinfo"}
PLAIN_PYTHON |= {"cronsim"}  # somebody else's, and just as pure
VALUES = {
    f"mayfly.{name}"
    for name in ("backoff", "exits", "job", "jsontext", "outcome", "slicing", "tally", "verdict", "wording")
}
VALUES |= {"dispatcher.exits", "dispatcher.plan", "mayfly.settings.values"}
VALUES |= {
    "mayfly.schedules",
    *(f"mayfly.schedules.{name}" for name in ("entry", "fields", "options", "parse", "recurrence", "words")),
}
PAGE_VALUES = {"Seen", "RunningJob"}  # the page itself is memory shared with another process
NAMES_OF_SIGNALS = {"signal.Signals"}


def impurities(source: Source) -> Iterator[str]:
    for each in source.imports:
        reached = {f"{each.module}.{name}" for name in each.names} if each.module == "mayfly" else {each.module}
        from_page = each.module == "mayfly.process.status_page" and set(each.names) <= PAGE_VALUES
        if not (reached <= VALUES or each.top in PLAIN_PYTHON or from_page or each.module == "signal"):
            yield source.at(each.line, f"decides, and so must not import {each.module}")
    for name, node in source.uses():
        if name.startswith("signal.") and f"{name}.".split(".")[:2] != ["signal", "Signals"]:
            yield source.at(node.lineno, f"decides, and so must not use {name}")
        if name in (*CLOCK_READINGS, "open", "print", "input"):
            yield source.at(node.lineno, f"decides, and so must not use {name}")


def test_modules_that_decide_are_pure() -> None:
    """Values in, values out: now and chance are arguments, nothing is read, written or asked."""
    found = [each for source in sources() if source.path in PURE for each in impurities(source)]

    assert not found, told(found)


def test_the_modules_that_decide_are_where_they_were() -> None:
    """A rule about a file that was moved would hold for ever."""
    assert set(PURE) - {each.path for each in sources()} == set()


# --- the rules themselves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import sleep as nap",
        "import datetime\nx = datetime.datetime.now()",
        "from datetime import datetime\nx = datetime.now(UTC)",
        "from datetime import datetime as dt\nx = dt.utcnow()",
        "from datetime import date\nclock = date.today",
        "from sqlalchemy import func\nx = func.now()",
    ],
)
def test_a_second_clock_is_seen(text: str) -> None:
    """However it is written, with its line."""
    assert [each.split(": ")[0] for each in clock_readings(Source("a.py", text))] == [
        f"a.py:{text.count(chr(10)) + 1}"
    ]


@pytest.mark.parametrize(
    "text",
    ["import os\nos.environ['X']", "from os import environ\nenviron.get('X')", "import os as o\no.getenv('X')"],
)
def test_a_look_at_the_environment_is_seen(text: str) -> None:
    """However it is written."""
    assert len(list(environment_readings(Source("a.py", text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from mayfly.settings import load_settings\nload_settings()",
        "from mayfly import settings\nsettings.load()",
        "import mayfly.settings\nmayfly.settings.load()",
        "from mayfly.settings.model import Settings as S\nS(home=x)",
    ],
)
def test_settings_built_elsewhere_are_seen(text: str) -> None:
    """However it is written."""
    assert len(list(settings_built(Source("a.py", text)))) == 1


@pytest.mark.parametrize(
    "text", ["import sys\nsys.exit(1)", "from sys import exit\nexit()", "raise SystemExit", "import os\nos._exit(0)"]
)
def test_a_second_exit_is_seen(text: str) -> None:
    """However it is written."""
    assert len(list(exits_called(Source("a.py", text)))) == 1


QUESTIONS = [
    'engine.dialect.name == "x"',
    'name != "mysql"',
    'kind in ("sqlite", "other")',
    "url.get_backend_name() == kind",
    'url.startswith("sqlite://")',
    'scheme.startswith(("http", "mysql+"))',
    "dialect.name in NAMES",
    'match kind:\n    case "postgresql":\n        pass',
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_about_the_database_is_seen(text: str) -> None:
    """However it is written."""
    assert len(list(dialect_questions(Source("a.py", text)))) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('def f(d):\n    # Differs because of this.\n    return d == "mysql"', 0),
        ('def f(d):\n    """Differs because."""\n    return d == "mysql"', 1),
        ('# Differs because of that.\ndef other(d): pass\ndef f(d):\n    return d == "mysql"', 1),
        ('# Differs because of this.\nX = kind == "mysql"', 0),
        ('X = kind == "mysql"', 1),
    ],
)
def test_a_difference_without_its_reason_is_seen(text: str, found: int) -> None:
    """A comment of another function does not count."""
    assert len(list(unexplained_differences(Source("a.py", text)))) == found


BASE = """
class Dialect:
    name: str
    lock: str = " FOR UPDATE"

    def connect(self):
        raise NotImplementedError

    def begin(self):
        ...
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('lock = ""', 1),
        ('lock = ""  # Differs because of this.', 0),
        ('# Differs because of this.\n    lock = ""', 0),
        ("def begin(self):\n        pass", 1),
        ("def begin(self):\n        # Differs because of this.\n        pass", 0),
        ("def connect(self):\n        pass", 0),
        ('name = "x"', 0),
        ("def other(self):\n        pass", 0),
    ],
)
def test_what_a_dialect_says_otherwise_without_a_reason_is_seen(body: str, found: int) -> None:
    """What every one must say for itself, or says alone, needs none."""
    source = Source("a.py", f"from base import Dialect\nclass One(Dialect):\n    x = 1\n    {body}\n")

    assert len(list(said_otherwise(source, Source("base.py", BASE)))) == found


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "from random import random",
        "from sqlalchemy import select",
        "from mayfly import clock",
        "from mayfly.db.database import Database",
        "from mayfly.process.status_page import Page",
        "import signal\nsignal.alarm(1)",
        "from datetime import datetime\nnow = datetime.now(UTC)",
        "x = open('y')",
    ],
)
def test_an_impurity_is_seen(text: str) -> None:
    """What reads, writes, waits or gambles."""
    assert len(list(impurities(Source("a.py", text)))) == 1


def test_an_exception_that_nobody_needs_is_seen() -> None:
    """The list of exceptions only ever names what is there."""
    assert without(["a.py:3: x", "b.py:4: y"], {"a.py": "", "c.py": ""}) == [
        "b.py:4: y",
        "c.py: is excepted and need not be",
    ]
