"""The sdist and the wheel, and applications outside of the checkout in which only the wheel is installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.process.installation import CHECKOUT

SOURCES = ("console", "cron.d", "dispatcher", "mayfly", "runner")
FILES = ("LICENSE", "README.md", "pyproject.toml", "setup.cfg")
HANDLERS = """
from mayfly import handler


@handler("greet")
def greet(job):
    return f"hello {job.payload['name']}"
"""


def build_distributions(directory: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel built from it. From a copy of the sources: a build leaves files next to them."""
    copy = directory / "source"
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / name, copy / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(CHECKOUT / name, copy / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    (sdist,), (wheel,) = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return sdist, wheel


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


@dataclass(frozen=True)
class Application:
    """A directory with modules and settings of its own, and an environment in which only the wheel is installed."""

    home: Path
    python: Path

    @property
    def log(self) -> str:
        path = self.home / "logs/dispatcher.log"
        return path.read_text() if path.exists() else ""

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)

    def environment(self, **settings: str) -> dict[str, str]:
        """As cron sets it. MAYFLY_HOME is not set where it is the directory of .venv."""
        own = {"PATH": "/usr/bin:/bin", "HOME": "/", "STATE_DIR": str(self.home / "state"), "MAX_LOAD": "0"}
        if self.python.parent.parent.parent != self.home:
            own["MAYFLY_HOME"] = str(self.home)
        return {**own, **settings}

    def run(
        self, *command: str | Path, directory: str = "", given: str = "", **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """In the directory of the application, where Python imports its packages first."""
        return subprocess.run(
            command,
            cwd=directory or self.home,
            env=self.environment(**settings),
            input=given,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def mayfly(self, *arguments: str, given: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.python.with_name("mayfly"), *arguments, given=given, **settings)

    def job_status(self, job_id: str) -> str:
        """The first line of `mayfly why`."""
        return self.mayfly("why", job_id).stdout.partition("\n")[0]


def install_wheel(wheel: Path, directory: Path) -> Path:
    """Into a new .venv there; returns its Python. The dependencies are those of the tests' environment."""
    python = directory / ".venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / ".venv"], check=True)
    pip("--python", str(python), "install", "--no-deps", str(wheel))
    (site_packages,) = (directory / ".venv/lib").glob("python*/site-packages")
    # A line of a .pth file: the .pth files of that directory, such as that of our editable install, have no effect.
    (site_packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}{os.linesep}")
    return python
