"""Programs that these tests run: our installer, and Debian's cron and logrotate."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
INSTALLER = CHECKOUT / "scripts/install-cron"
IS_ROOT = os.geteuid() == 0
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"  # a user's own lacks sbin

needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")


def run_installer(
    directory: Path,
    *arguments: str | Path,
    script: Path = INSTALLER,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Always into a given directory: a broken `--print` must not write to the real /etc/cron.d."""
    return subprocess.run(
        [*prefix, script, "--directory", directory, *arguments],
        cwd="/",
        env={"PATH": SYSTEM_PATH, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def print_file(name: str, home: Path) -> str:
    """The output of `mayfly cron print`."""
    return subprocess.run(
        [CHECKOUT / ".venv/bin/python", "-m", "mayfly", "cron", "print", name, "--home", home],
        cwd="/",
        env={"PATH": SYSTEM_PATH},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def debian_program(name: str, package: str) -> str:
    """Installs the program first if root may; if it is not available, CI fails and other machines skip."""
    found = shutil.which(name, path=SYSTEM_PATH)
    if found is None and IS_ROOT and shutil.which("apt-get"):
        subprocess.run(
            f"apt-get update && apt-get install -y --no-install-recommends {package}",
            shell=True,
            env={"PATH": SYSTEM_PATH, "DEBIAN_FRONTEND": "noninteractive"},
            timeout=300,
            check=False,
        )
        found = shutil.which(name, path=SYSTEM_PATH)
        if found is None and os.environ.get("CI") == "true":
            pytest.fail(f"{package} could not be installed: see the output of apt-get above")
    if found is None:
        pytest.skip(f"{name} is not on this machine: apt-get install {package}")
    return found


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition became true within the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
