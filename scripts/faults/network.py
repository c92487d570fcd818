"""Hosts as network namespaces whose links to the database can be cut. Needs root, iproute2 and nftables.

The program re-executes itself in an anonymous namespace (`unshare --net`), so that nothing is left when it is killed.
The database listens on a bridge in that namespace; each host is the namespace of a sleeping process.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

DATABASE_ADDRESS = "10.77.0.1"
INSIDE = "TORTURE_NAMESPACE"


def is_available() -> bool:
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "nft", "unshare", "nsenter")))


def is_inside() -> bool:
    return INSIDE in os.environ


def reexecute(arguments: list[str]) -> NoReturn:
    """Replace this process by the same program in a new network namespace."""
    os.environ[INSIDE] = "yes"
    os.execvp("unshare", ["unshare", "--net", sys.executable, "-m", "scripts.faults", *arguments])  # noqa: S606, S607


def set_up() -> None:
    _ip("link", "set", "lo", "up")
    _ip("link", "add", "br0", "type", "bridge")
    _ip("addr", "add", f"{DATABASE_ADDRESS}/24", "dev", "br0")
    _ip("link", "set", "br0", "up")
    _run("nft", "add table inet torture; add chain inet torture out { type filter hook output priority 0; }")


@dataclass
class Link:
    """The namespace of one host and its cable to the database."""

    number: int

    def __post_init__(self) -> None:
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])  # noqa: S607
        self._wait_for_namespace()
        pid, cable = str(self._holder.pid), self._cable
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _ip("link", "set", cable, "master", "br0")
        _ip("link", "set", cable, "up")
        for command in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "addr", "add", f"{self._address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
        ):
            _run(*self.prefix, *command)

    @property
    def prefix(self) -> tuple[str, ...]:
        """The prefix of a command that runs on this host."""
        return ("nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--")

    def cut(self) -> None:
        """In both directions; packets are dropped without an error."""
        _ip("link", "set", self._cable, "down")

    def drop_replies(self) -> None:
        """The host can still send to the database."""
        _run("nft", f"add rule inet torture out ip daddr {self._address} drop")

    def heal(self) -> None:
        _ip("link", "set", self._cable, "up")
        _run("nft", "flush chain inet torture out")

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()

    @property
    def _cable(self) -> str:
        return f"host{self.number}"

    @property
    def _address(self) -> str:
        return f"10.77.0.{10 + self.number}"

    def _wait_for_namespace(self) -> None:
        own = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self._holder.pid}/ns/net").readlink() == own:
            os.sched_yield()


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
