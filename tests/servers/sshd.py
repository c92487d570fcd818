"""A private sshd on the loopback, with keys of its own; each user may log in as itself only."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.servers.private import PrivateProcess

CONFIGURATION = """
Port {port}
ListenAddress 127.0.0.1
HostKey {home}/host_key
AuthorizedKeysFile {home}/key.pub
PidFile {home}/sshd.pid
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin prohibit-password
AcceptEnv none
"""


class Sshd(PrivateProcess):
    package = "openssh-server"
    account = "root"
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        super().__init__("sshd")

    @classmethod
    def programs(cls) -> tuple[Path, Path] | None:
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
        found = [shutil.which(each, path=path) for each in ("ssh-keygen", "sshd")]
        return (Path(str(found[0])), Path(str(found[1]))) if all(found) else None

    @property
    def options(self) -> list[str]:
        """Of a client."""
        known = f"UserKnownHostsFile={self.home}/known_hosts"
        options = ["-F", "none", "-p", str(self.port), "-i", str(self.home / "key"), "-o", known]
        return [*options, "-o", "StrictHostKeyChecking=accept-new"]

    @property
    def user(self) -> str:
        return getpass.getuser()

    def initialise(self, program: Path) -> None:
        for name in ("host_key", "key"):
            command: list[str | Path] = [program, "-q", "-t", "ed25519", "-N", "", "-f", self.home / name]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        (self.home / "sshd_config").write_text(CONFIGURATION.format(home=self.home, port=self.port))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # required by Debian's sshd

    def command(self, program: Path) -> list[str]:
        return [str(program), "-D", "-e", "-f", str(self.home / "sshd_config")]

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            return connection.recv(4) == b"SSH-"
        return False

    def _identity(self) -> dict[str, Any]:
        """It lets the user of the tests log in."""
        return {}
