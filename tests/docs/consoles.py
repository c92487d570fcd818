"""Blocks of a page, and commands in it: each prints what the page shows below it."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.process.installation import Installation

CHECKOUT = Path(__file__).parents[2]
SCRIPT_SECONDS = 300.0  # of a block with several commands, each a new interpreter
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def page_named(name: str) -> str:
    return (CHECKOUT / "docs" / name).read_text("utf-8")


def section_named(name: str, title: str) -> str:
    """A section of level 2 as if it were a page: its headings are one level higher."""
    [text] = re.findall(rf"^## {title}\n.+?(?=^## |\Z)", page_named(name), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^#(#+ )", r"\1", str(text), flags=re.MULTILINE)


def all_blocks(page: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each block, in order."""
    for indent, language, text in BLOCK.findall(page):
        yield language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)


def blocks(page: str, language: str) -> list[str]:
    return [text for each, text in all_blocks(page) if each == language]


def is_settings(language: str, text: str) -> bool:
    """Whether a block is the content of .env: comments and assignments only."""
    return language == "sh" and all(re.match(r"#|[A-Z_0-9]+=|$", line) for line in text.splitlines())


def run_shell(installation: Installation, script: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the commands of a block in the home of the installation, up to the first one that fails."""
    programs = installation.home / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "mayfly").write_text(f'#!/bin/sh\nexec {sys.executable} -m mayfly "$@"\n')
    (programs / "mayfly").chmod(0o755)
    environment = installation.environment(**settings)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=installation.home,
        env={**environment, "PATH": f"{programs}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SCRIPT_SECONDS,
        check=False,
    )


def run_consoles(installation: Installation, page: str) -> int:
    """Run all commands of the page in order; returns their number. … matches any text within a line."""
    steps = [step for block in blocks(page, "console") for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    for step in steps:
        command, _, printed = step.partition("\n")

        ran = installation.run(*shlex.split(command, comments=True))

        expected = ".+".join(map(re.escape, printed.split("…")))
        code = re.search(r"# exit code (\d+)$", command)
        assert ran.returncode == (int(code[1]) if code else 0), ran.stderr
        assert re.fullmatch(expected, ran.stdout), f"{command}\n{ran.stdout}"
    return len(steps)
