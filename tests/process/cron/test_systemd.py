"""cron.d/systemd: the timer and the service that stand in for cron."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from getpass import getuser
from pathlib import Path

import pytest

from mayfly.cli.cron_file import dispatcher_entries
from tests.process.cron.programs import CHECKOUT

UNITS = CHECKOUT / "cron.d/systemd"


class Unit(ConfigParser):
    """A unit file; its names are read as they are written."""

    def __init__(self, name: str) -> None:
        super().__init__(interpolation=None, strict=False, comment_prefixes=("#", ";"), delimiters=("=",))
        self.read(UNITS / name)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def test_the_timer_starts_the_service_at_second_zero_of_every_minute() -> None:
    """Every minute, to the second, and also after the next boot."""
    timer = Unit("mayfly.timer")

    assert dict(timer["Timer"]) == {"OnCalendar": "*-*-* *:*:00", "AccuracySec": "1s"}
    assert timer["Install"]["WantedBy"] == "timers.target"


@pytest.mark.parametrize(
    ("setting", "value"), [("Type", "oneshot"), ("KillMode", "process"), ("OOMPolicy", "continue")]
)
def test_the_service_ends_nothing_but_the_dispatcher(setting: str, value: str) -> None:
    """When a cycle ends, long runners live on; when the kernel kills one runner, the others do."""
    assert Unit("mayfly.service")["Service"][setting] == value


def test_the_service_runs_what_cron_would_run() -> None:
    """Both name the same user and the same command."""
    service = Unit("mayfly.service")["Service"]
    (entry,) = dispatcher_entries((CHECKOUT / "cron.d/mayfly").read_text())

    assert service["User"] == entry.user
    assert service["ExecStart"].split() == entry.words[1:]
    assert f"Environment=MAYFLY_HOME={entry.home}\n" in (UNITS / "mayfly.service").read_text()
    assert f"Environment=PATH={entry.environment['PATH']}\n" in (UNITS / "mayfly.service").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    """With a program and a user of this host in place of the placeholders, systemd has no complaint."""
    for name in ("mayfly.service", "mayfly.timer"):
        text = (UNITS / name).read_text().replace("/srv/mayfly/.venv/bin/python", sys.executable)
        (tmp_path / name).write_text(text.replace("User=mayfly", f"User={getuser()}"))

    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *tmp_path.iterdir()],
        capture_output=True,
        text=True,
        check=False,
    )

    assert [line for line in said.stderr.splitlines() if "mayfly" in line] == []
