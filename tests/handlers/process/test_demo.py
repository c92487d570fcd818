"""`scripts/demo`: all handlers at once, against fake services, in real cycles."""

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from urllib.request import urlopen

import pytest
from argon2 import PasswordHasher

from mayfly.client import load_registry
from mayfly.settings import load_settings
from scripts.demonstration.home import Home
from scripts.demonstration.report import commands, next_steps
from tests.process.installation import CHECKOUT, wait_until
from tests.receivers import free_port


def demo(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "scripts.demonstration", *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_demo_runs_every_handler(tmp_path: Path) -> None:
    """No job is dead or left pending, and the mails can be read."""
    home = tmp_path / "demo"

    run = demo("--home", str(home), "--people", "20", "--seconds", "300", "--until-done")

    assert (run.returncode, run.stderr) == (0, "")
    lanes = re.findall(r"│(\w+) +│(\w+) +│ *(\d*) │ *(\d*) │ *(\d*) │ *(\d*) │", run.stdout)
    assert [each for each in lanes if each[3:] != ("", "", "")] == []  # dead, cancelled, waiting
    missing = platform_types() - {type_name for _lane, type_name, *_ in lanes}
    assert missing == {"unsubscribe", "undo_merge", "review_merge"}
    mails = re.search(r"│ mails +│ +([\d,]+) │", run.stdout)
    assert mails is not None
    assert len(list((home / "mail").iterdir())) == int(mails[1].replace(",", "")) > 20
    assert list((home / "archives").glob("*.zip"))
    assert list((home / "attachments").rglob("*.pdf"))
    [search] = re.findall(r"^  (MAYFLY_HOME=.+ saturday)$", run.stdout, re.MULTILINE)
    found = run_in_shell(search)
    assert (found.returncode, "Saturday" in found.stdout) == (0, True)


@pytest.mark.slow
def test_the_commands_at_its_end_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any directory; the console has its packages and the printed password."""
    monkeypatch.setenv("MAYFLY_HOME", "set by the demo")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    home = Home(tmp_path / "a demo", CHECKOUT)
    home.empty()
    home.configure(mail_port=free_port(), http_port=free_port())
    status, dead, search, console = commands(home)

    assert "No cycle has run yet" in run_in_shell(status).stdout
    assert (run_in_shell(dead).returncode, run_in_shell(dead).stdout) == (0, "No dead jobs.\n")
    assert "rebuild_search_index" in run_in_shell(search).stderr
    port = free_port()
    served = subprocess.Popen(f"CONSOLE_PORT={port} exec env {console}", shell=True, cwd="/", stderr=subprocess.PIPE)
    try:
        wait_until(lambda: answers(port), "the console serves its login page")
    finally:
        served.terminate()
        _, log = served.communicate()
    assert b"ERROR" not in log
    [hashed] = re.findall(r"CONSOLE_PASSWORD_HASH='(.+)'", (home.path / ".env").read_text())
    assert PasswordHasher().verify(hashed, home.console_password)
    assert home.console_password in next_steps(home)


def run_in_shell(command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, shell=True, cwd="/", capture_output=True, text=True, check=False)


def answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/login") as page:
            return bool(page.status == 200)
    except OSError:
        return False


def test_the_demo_installs_the_packages_of_the_console() -> None:
    """And those of all areas."""
    parser = ConfigParser()
    parser.read(CHECKOUT / "setup.cfg")
    extras = {name: names_in(text) for name, text in parser["options.extras_require"].items()}

    areas = ("console", "http", "invoice", "mail", "push", "prospects", "webhooks")
    assert set().union(*(extras[each] for each in areas)) <= extras["demo"]


def names_in(requirements: str) -> set[str]:
    return {re.split(r"[ \[<>=]", each)[0] for each in requirements.split("\n") if each}


def platform_types() -> set[str]:
    """The types of all areas."""
    known = load_registry(load_settings()).handlers.items()
    return {name for name, each in known if re.fullmatch(r"handlers\.(?!samples)\w+", each.function.__module__)}


def test_a_directory_with_other_files_is_not_emptied(tmp_path: Path) -> None:
    """A mistyped --home loses nothing."""
    (tmp_path / "thesis.txt").write_text("years of work")

    run = demo("--home", str(tmp_path))

    assert (run.returncode, (tmp_path / "thesis.txt").read_text()) == (1, "years of work")
    assert "name another directory with --home" in run.stderr
