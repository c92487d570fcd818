"""Commands and SQL in the READMEs of handlers run: payloads fit their models, statements fit the tables."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.installation import CHECKOUT, Installation

READMES = sorted((CHECKOUT / "handlers").glob("*/README.md"))
BLOCK = re.compile(r"^```(\w+)\n(.+?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for path in READMES:
        for found, text in BLOCK.findall(path.read_text("utf-8")):
            if found == language:
                yield path.parent.name, text


def enqueues() -> Iterator[tuple[str, list[str]]]:
    """The arguments of each `mayfly enqueue`; a payload may have several lines."""
    for area, text in blocks("sh"):
        for command in re.findall(r"^mayfly enqueue .+?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL):
            yield area, shlex.split(command, comments=True)[1:]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """With the tables of all handlers."""
    home: Path = tmp_path_factory.mktemp("platform")
    made = Installation(home, f"sqlite:///{home}/mayfly.db", {"HANDLERS": "handlers"})
    made.run("mayfly", "migrate")
    migrated = made.run("mayfly", "migrate", "--app")
    assert migrated.returncode == 0, migrated.stderr
    yield made
    made.end()


@pytest.mark.parametrize(
    ("area", "words"), list(enqueues()), ids=lambda each: each if isinstance(each, str) else each[1]
)
def test_a_job_of_a_readme_is_valid(platform: Installation, area: str, words: list[str]) -> None:
    """Its type has a handler, and its payload fits the model."""
    ran = platform.run("mayfly", *words, "--dry-run")

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(("area", "text"), list(blocks("sql")), ids=lambda each: each if "\n" not in each else "")
def test_the_sql_of_a_readme_runs(platform: Installation, area: str, text: str) -> None:
    """Tables and columns exist."""
    for statement in filter(None, map(str.strip, text.split(";\n"))):
        platform.execute(statement.removesuffix(";"))


def test_the_readmes_have_blocks() -> None:
    """The patterns above find them."""
    assert (len(list(enqueues())) > 10, len(list(blocks("sql"))) > 4) == (True, True)
