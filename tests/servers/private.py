"""Run private servers for the tests: in a temporary directory, on the loopback, removed at the end."""

import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import psutil
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from tests.servers.directory import directory_for_databases
from tests.servers.server import DidNotStart, Server, Unavailable

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
# Below the kernel's ephemeral range: a client of a killed server could otherwise be given the server's port.
PORTS = range(20000, 32000)
# Waits for the end of the tests and cleans up if they were killed (kill -9). Ten seconds at most, since a dead
# server may stay a zombie if no process reaps orphans.
CLEANUP_SCRIPT = """
read -r _
kill -QUIT "$1"
for _ in $(seq 100); do kill -0 "$1" || break; sleep 0.1; done
rm -rf "$2"
"""


class PrivateServer(Server, ABC):
    """A server of this test run; the first start creates its data directory."""

    can_restart = True
    package: ClassVar[str]
    account: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    parent: Path | None = None  # of its directory; None: see tests.servers.directory

    def __init__(
        self, engine_name: str, url: URL, connect_args: dict[str, Any] | None = None, password: str | None = None
    ) -> None:
        # Random, so that no other test run connects to this server; and a URL must escape it.
        self.password = password or f"p%{secrets.token_hex(8)}@:/"
        self.port = free_port()
        self.directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._cleanup: subprocess.Popen[bytes] | None = None
        address = url.set(username="mayfly", password=self.password, host="127.0.0.1", port=self.port)
        super().__init__(engine_name, address, connect_args)

    @classmethod
    @abstractmethod
    def programs(cls) -> tuple[Path, Path] | None:
        """The program that fills a data directory and the server's program, if they are installed."""

    @abstractmethod
    def initialise(self, program: Path) -> None:
        """Fill the data directory."""

    @abstractmethod
    def command(self, program: Path) -> list[str]:
        """The server's command line."""

    @property
    def home(self) -> Path:
        assert self.directory is not None, "the server was never started"
        return self.directory

    @property
    def alternative(self) -> str:
        """To an installed server, in the note about a missing one."""
        return f", or let TEST_{self.engine_name.upper()}_URL name one that runs"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def cpu_seconds(self) -> float:
        """User and system time of all its processes since the start, of those that have ended too."""
        assert self._process is not None, "the server is not running"
        server = psutil.Process(self._process.pid)
        spent = [server.cpu_times()[:4]]  # user, system, and both of the ended children
        for each in server.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                spent.append(each.cpu_times()[:4])
        return sum(map(sum, spent))

    def start(self) -> None:
        """Start, and return when it answers."""
        initialiser, server = self._require_programs()
        try:
            if self.directory is None:
                self._make_directory()
                self.initialise(initialiser)
                # A new data directory that is killed before its first clean stop may not be recoverable.
                self._launch(server)
                self.stop()
            self._launch(server)
        except BaseException:
            self.remove()
            raise

    def stop(self) -> None:
        """Stop cleanly, as an operator would."""
        if self._process is None:
            return
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._forget_process()

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL to every process of the server."""
        if self._process is None:
            return
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(self._process.pid)
            server.suspend()  # stopped first, or it could fork another one meanwhile
            family = [*server.children(recursive=True), server]
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            await_dead(family)
        self._process.wait(STOP_SECONDS)
        self._forget_process()

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        """Remove all files; it cannot be started again."""
        self.kill()
        if self.directory is not None:
            self.forget_shared_memory()
            shutil.rmtree(self.directory, ignore_errors=True)

    def leftovers(self) -> list[str]:
        """What remains of a removed server. Anything is a bug."""
        if self.directory is None:
            return []
        left = [str(self.directory)] if self.directory.exists() else []
        for process in psutil.process_iter(["pid", "name", "cwd", "cmdline"]):
            traces = [process.info["cwd"] or "", *(process.info["cmdline"] or [])]
            if any(str(self.directory) in trace for trace in traces):
                left.append(f"process {process.info['pid']} ({process.info['name']})")
        return left

    def run(self, *arguments: str | Path) -> None:
        """Run one of the server's programs to its end, as the server's user."""
        program = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.home,
            start_new_session=True,
            **self._identity(),
        )
        try:
            output, _ = program.communicate()
        except BaseException:
            os.killpg(program.pid, signal.SIGKILL)  # with its children: a script starts the server itself
            program.communicate()
            raise
        if program.returncode:
            raise DidNotStart(f"{arguments[0]} ended with {program.returncode}: {output[-2000:].strip()}")

    def forget_shared_memory(self) -> None:
        """Free the shared memory of a killed server."""

    def _require_programs(self) -> tuple[Path, Path]:
        found = self.programs()
        if found is None:
            raise Unavailable(
                f"No {self.engine_name} server is installed: `apt-get install {self.package}` brings it"
                f" (scripts/test does that itself when it is root on Debian){self.alternative}."
            )
        return found

    def _make_directory(self) -> None:
        identity = self._identity()
        parent = self.parent or directory_for_databases()
        self.directory = Path(tempfile.mkdtemp(prefix=f"mayfly-{self.engine_name}-", dir=parent))
        if identity:
            os.chown(self.directory, identity["user"], identity["group"])

    def _identity(self) -> dict[str, Any]:
        """PostgreSQL refuses to run as root, and MariaDB should not; other users stay as they are."""
        if os.geteuid() != 0:
            return {}
        try:
            account = pwd.getpwnam(self.account)
        except KeyError:
            raise Unavailable(f"There is no account {self.account} to run {self.engine_name} in.") from None
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def _launch(self, program: Path) -> None:
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(program),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,  # Ctrl-C is handled by the tests, which stop the server
                **self._identity(),
            )
        self._cleanup = subprocess.Popen(
            ["sh", "-c", CLEANUP_SCRIPT, "cleanup", str(self._process.pid), str(self.home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
            except DBAPIError as error:
                if not self.is_running or time.monotonic() > deadline:
                    tail = (self.home / "log").read_text(errors="replace")[-2000:].strip()
                    raise DidNotStart(f"{self.engine_name} did not start: {tail}") from error
                time.sleep(0.02)
            else:
                return

    def _forget_process(self) -> None:
        self._process = None
        if self._cleanup is not None:
            self._cleanup.kill()
            self._cleanup.communicate()
            self._cleanup = None


def await_dead(processes: Sequence[psutil.Process]) -> None:
    """A zombie counts as dead: its parent may reap it late."""
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline and any(map(is_alive, processes)):
        time.sleep(0.005)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    for port in random.sample(PORTS, k=100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Unavailable("Of 100 ports on the loopback not one was free.")
