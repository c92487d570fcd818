"""Blocks of the docs that can run are run: settings and commands here, Python and SQL by the test of their page.

The READMEs of handlers and examples are run whole, each by one test.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from mayfly.cli import mayfly as cli
from mayfly.settings import load
from scripts.reference import PAGES as GENERATED
from tests.docs.consoles import CHECKOUT, all_blocks, is_settings
from tests.process.installation import Installation

DOCS = CHECKOUT / "docs"
GENERATED_PAGES = {DOCS / each for each in GENERATED} - {DOCS / "reference/settings.md"}
PAGES = {
    str(path.relative_to(CHECKOUT)): path
    for path in (CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
    if path not in GENERATED_PAGES
}
# Blocks of Python and SQL per page, and the tests that run them. A new block needs a test, then a higher number here.
RUN_BY_THEIR_PAGE = {
    "README.md": {"python": (2, "test_readme"), "sql": (1, "test_readme")},
    "docs/explanation/scale.md": {"python": (3, "test_scale_page")},
    "docs/how-to/batches-and-chains.md": {"python": (2, "test_batches_page")},
    "docs/how-to/coming-from.md": {"python": (2, "test_coming_from_page")},
    "docs/how-to/console.md": {"python": (1, "test_console_page")},
    "docs/how-to/limit.md": {"python": (1, "test_limits_page")},
    "docs/how-to/long-jobs.md": {"python": (3, "test_long_jobs_page")},
    "docs/how-to/monitor.md": {"python": (1, "test_hooks_page")},
    "docs/how-to/operate.md": {"python": (2, "test_control_page")},
    "docs/how-to/schedule.md": {"python": (1, "test_schedules_page")},
    "docs/how-to/sources.md": {"python": (1, "test_sources_page"), "sql": (1, "test_sources_page")},
    "docs/how-to/test-handlers.md": {"python": (2, "test_testing_page")},
    "docs/reference/python.md": {
        "python": (16, "test_handlers_page, test_console_page, test_sql_examples"), "sql": (4, "test_sql_examples"),
    },
    "docs/reference/settings.md": {"sql": (1, "test_postgresql_page")},
    "docs/tutorial.md": {"python": (8, "test_application_page")},
}  # fmt: skip
# Pages whose blocks are run whole and in order, and the test that does it.
RUN_IN_ORDER = {
    **dict.fromkeys((CHECKOUT / "handlers").rglob("README.md"), "tests/handlers/test_readme_blocks.py"),
    CHECKOUT / "examples/post_scheduler/README.md": "tests/process/test_post_scheduler.py",
}
NOT_OURS = {".venv", ".git", "build", "node_modules"}
RUNNABLE = {"python", "sql", "toml", "sh", "console"}
# Commands that are parsed here, and not run: why.
NOT_RUN_HERE = {
    "console": "a server: test_console_page starts it",
    "dev": "runs until it is ended: tests/process/test_command_line.py",
    "password": "asks for a password: test_console_page",
    "top": "full screen",
    "cron": "writes to /etc: tests/process/cron",
    "migrate --dry-run": "tests/database/test_upgrades.py",
}


class Command(NamedTuple):
    page: str
    line: str
    words: tuple[str, ...]  # after `mayfly`

    def at(self, crontab: Path) -> list[str]:
        return [str(crontab) if each == "/etc/cron.d/app" else each for each in self.words]


def blocks_of(page: str) -> Iterator[tuple[str, str]]:
    return all_blocks(PAGES[page].read_text("utf-8"))


def commands_of(page: str) -> Iterator[Command]:
    """Those of `mayfly`: in a console after the prompt; without sudo, pipes, redirections and comments."""
    for language, text in blocks_of(page):
        if language not in ("sh", "console", ""):
            continue
        for line in re.sub(r"\\\n\s*", " ", text).splitlines():
            shown = re.sub(r"(^|\s)# .*$", "", line)
            if language == "console" and not shown.startswith("$ "):
                continue
            yield from (Command(page, line, words) for words in mayfly_words(shown.removeprefix("$ ")))


def mayfly_words(line: str) -> Iterator[tuple[str, ...]]:
    for part in re.split(r" (?:\||&&|;|>>|>|<) ", line):
        words = shlex.split(part) if part.count("'") % 2 == 0 and part.count('"') % 2 == 0 else part.split()
        while words and (words[0] == "sudo" or re.fullmatch(r"[A-Z_]+=\S*", words[0])):
            del words[0]
        if words and words[0].rpartition("/")[2] == "mayfly":
            yield tuple(words[1:])


def settings_of(page: str) -> Iterator[tuple[str, str]]:
    """The name of the file, and its text."""
    for language, text in blocks_of(page):
        if language == "toml":
            yield "mayfly.toml", text
        elif is_settings(language, text):
            yield ".env", text


COMMANDS = [each for page in PAGES for each in commands_of(page)]
SETTINGS = [(page, *each) for page in PAGES for each in settings_of(page)]


def test_every_file_with_blocks_has_a_test() -> None:
    """Each Markdown file of the checkout is a page of the docs, generated, or run as a whole."""
    tested = {*PAGES.values(), *GENERATED_PAGES, *RUN_IN_ORDER}
    files = (path for path in CHECKOUT.rglob("*.md") if not NOT_OURS & {*path.relative_to(CHECKOUT).parts})
    found = {
        path for path in files if any(language in RUNNABLE for language, _ in all_blocks(path.read_text("utf-8")))
    }

    assert found - tested == set()
    assert RUN_IN_ORDER.keys() <= found
    for path, module in RUN_IN_ORDER.items():
        assert f'"{path.relative_to(CHECKOUT).parts[0]}"' in (CHECKOUT / module).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_python_and_sql_are_run_by_the_test_of_their_page(page: str) -> None:
    """As many blocks as that test runs."""
    languages = [language for language, _ in blocks_of(page) if language in ("python", "sql")]
    tested = RUN_BY_THEIR_PAGE.get(page, {})

    assert {each: languages.count(each) for each in languages} == {each: count for each, (count, _) in tested.items()}
    for _count, modules in tested.values():
        for module in modules.split(", "):
            assert Path(page).name in (CHECKOUT / "tests/docs" / f"{module}.py").read_text("utf-8")


@pytest.mark.parametrize(("page", "file", "text"), SETTINGS, ids=lambda each: each if "\n" not in each else "")
def test_settings_load_without_a_warning(page: str, file: str, text: str, tmp_path: Path) -> None:
    """Blocks of mayfly.toml and .env."""
    (tmp_path / file).write_text(text)

    assert load({"MAYFLY_HOME": str(tmp_path)}).warnings == ()


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    """What the page calls /etc/cron.d/app."""
    path = tmp_path / "app"
    path.write_text("30 2 * * * root /usr/bin/true\n")
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: f"{each.page}: {each.line}")
def test_a_command_is_valid(command: Command, crontab: Path) -> None:
    """Verb, options and arguments."""
    parsed: click.Command = cli
    words, context = command.at(crontab), None
    while isinstance(parsed, click.Group) and words:
        context = click.Context(parsed, parent=context)
        name, found, words = parsed.resolve_command(context, words)
        assert found is not None, name
        parsed = found
    parsed.make_context(parsed.name, words, parent=context).close()


def test_commands_run(tmp_path: Path, crontab: Path) -> None:
    """In an installation that has what the pages name: none ends with a usage error or a traceback."""
    (tmp_path / "cron.d").mkdir()
    (tmp_path / "cron.d" / "schedule").write_text("30 2 * * 1-5 send_digest\n")
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    made.enqueue("noop", count=3)
    made.dispatch(HOST_NAME="web3")
    made.enqueue("noop", group_key="campaign-7")
    made.execute("INSERT INTO mayfly_batches (batch_key, created_at) VALUES ('campaign-7', '2026-05-04 12:00:00')")
    run = {each.words: each for each in COMMANDS if not " ".join(each.words).startswith(tuple(NOT_RUN_HERE))}
    failed = []
    for command in run.values():
        ran = made.run("mayfly", *command.at(crontab))
        asked = "No terminal to ask on" in ran.stderr
        if "Traceback" in ran.stderr or (ran.returncode not in (0, 1) and not asked):
            failed.append(f"{command.page}: {command.line}: {ran.returncode} {ran.stderr}")
    made.end()

    assert not failed, "\n".join(failed)
    assert len(run) > 15
