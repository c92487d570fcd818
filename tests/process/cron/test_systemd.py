"""cron.d/systemd: the timer and the service that replace cron."""

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from mayfly.cli.cron_file import dispatcher_entries, service_entry
from tests.process.cron.programs import CHECKOUT, print_file

UNITS = CHECKOUT / "cron.d/systemd"


class Unit(ConfigParser):
    """A unit file; option names keep their case."""

    def __init__(self, name: str) -> None:
        super().__init__(interpolation=None, strict=False, comment_prefixes=("#", ";"), delimiters=("=",))
        self.read(UNITS / name)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def test_the_timer_starts_the_service_at_second_zero_of_every_minute() -> None:
    """Also after the next boot."""
    timer = Unit("mayfly.timer")

    assert dict(timer["Timer"]) == {"OnCalendar": "*-*-* *:*:00", "AccuracySec": "1s"}
    assert timer["Install"]["WantedBy"] == "timers.target"


@pytest.mark.parametrize(
    ("setting", "value"), [("Type", "oneshot"), ("KillMode", "process"), ("OOMPolicy", "continue")]
)
def test_the_service_ends_nothing_but_the_dispatcher(setting: str, value: str) -> None:
    """Long runners survive the end of a cycle, and an out-of-memory kill of one runner does not end the others."""
    assert Unit("mayfly.service")["Service"][setting] == value


def test_the_service_runs_the_command_of_cron() -> None:
    """With the same user."""
    service = Unit("mayfly.service")["Service"]
    (entry,) = dispatcher_entries((CHECKOUT / "cron.d/mayfly").read_text())

    assert service["User"] == entry.user
    assert service["ExecStart"].split() == entry.words[1:]
    assert f"Environment=MAYFLY_HOME={entry.home}\n" in (UNITS / "mayfly.service").read_text()
    assert f"Environment=PATH={entry.environment['PATH']}\n" in (UNITS / "mayfly.service").read_text()


def test_the_printed_service_has_the_values_of_this_host(tmp_path: Path) -> None:
    """They are found again by the doctor, also in a path that must be quoted; nothing of the example is left."""
    home = tmp_path / "100% ours"
    home.mkdir()

    text = print_file("service", home)

    entry = service_entry(text)
    assert entry is not None
    assert (entry.user, entry.home) == (home.owner(), str(home))
    assert entry.interpreter == str(CHECKOUT / ".venv/bin/python")
    assert f'Environment="MAYFLY_HOME={tmp_path}/100%% ours"\n' in text
    assert "/srv/mayfly" not in text


def test_the_printed_rules_are_those_of_the_checkout(tmp_path: Path) -> None:
    assert print_file("rules", tmp_path) == (CHECKOUT / "cron.d/mayfly.rules.yml").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """As `mayfly cron print` prints them, systemd has no warning."""
    home = tmp_path / "100% ours"
    home.mkdir()
    for name in ("service", "timer"):
        (tmp_path / f"mayfly.{name}").write_text(print_file(name, home))

    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "mayfly.service", tmp_path / "mayfly.timer"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert [line for line in result.stderr.splitlines() if "mayfly" in line] == []
