"""What `mayfly doctor` reports about cron: home and interpreter of an entry, compared with its own."""

import os
import sys
from pathlib import Path

import pytest

from mayfly.cli.cron_file import render_entry
from mayfly.cli.doctor import CheckResult, CheckStatus, cron_results

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="cron ignores files that do not belong to root")


class Host:
    """Directories that stand for /etc/cron.d and /etc/systemd/system, and two virtual environments."""

    def __init__(self, root: Path) -> None:
        self.cron, self.units, self.home = root / "cron.d", root / "system", root / "home"
        self.python, self.other = root / "venv/bin/python", root / "old/bin/python"
        for each in (self.cron, self.units, self.home):
            each.mkdir()
        for each in (self.python, self.other):
            each.parent.mkdir(parents=True)
            each.symlink_to(sys.executable)

    def install(self, home: Path, python: Path) -> None:
        file = self.cron / "mayfly"
        file.write_text(render_entry(user="root", home=str(home), python=str(python)))
        file.chmod(0o644)

    def results(self) -> list[CheckResult]:
        return list(cron_results(str(self.home), str(self.python), self.cron, [self.units]))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_an_entry_with_this_home_and_interpreter_is_ok(host: Host) -> None:
    """`python3` of the same environment is the same interpreter."""
    host.install(host.home, host.python.with_name("python3"))
    host.python.with_name("python3").symlink_to("python")

    (found,) = host.results()

    assert found == (CheckStatus.OK, f"{host.cron}/mayfly starts the dispatcher with {host.python}3")


def test_an_entry_with_another_interpreter_is_a_warning(host: Host) -> None:
    """After an upgrade into a new environment, cron would still use the old one."""
    host.install(host.home, host.other)

    (found,) = host.results()

    assert found.status is CheckStatus.WARNING
    assert f"starts the dispatcher with {host.other}, not with {host.python}, which runs this check" in found.text


def test_an_entry_for_another_home_is_named(host: Host, tmp_path: Path) -> None:
    """Jobs of this home would wait, although cron starts the dispatcher of this environment."""
    host.install(tmp_path, host.python)

    (found,) = host.results()

    assert found.status is CheckStatus.WARNING
    assert f"starts the dispatcher for MAYFLY_HOME={host.home}: run `mayfly cron install`" in found.text
    assert f"{host.cron}/mayfly starts it for MAYFLY_HOME={tmp_path}." in found.text


def test_without_an_entry_the_command_is_named(host: Host) -> None:
    (found,) = host.results()

    assert found.text.endswith("run `mayfly cron install`.")


def test_an_entry_that_cron_ignores_is_a_problem(host: Host) -> None:
    host.install(host.home, host.python)
    (host.cron / "mayfly").chmod(0o666)

    (found,) = host.results()

    assert found.status is CheckStatus.PROBLEM
    assert "writable by others" in found.text


@pytest.mark.parametrize("is_same", [True, False])
def test_a_timer_of_systemd_is_compared_too(host: Host, is_same: bool) -> None:
    """By the service that it starts."""
    python = host.python if is_same else host.other
    (host.units / "mayfly.timer").touch()
    (host.units / "mayfly.service").write_text(
        f"[Service]\nEnvironment=MAYFLY_HOME={host.home}\nExecStart={python} -P -m mayfly dispatch\n"
    )

    (found,) = host.results()

    assert found.status is (CheckStatus.OK if is_same else CheckStatus.WARNING)
    assert f"{host.units}/mayfly.service starts the dispatcher with {python}" in found.text
