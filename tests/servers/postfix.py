"""A private Postfix: it delivers all mail to one domain into a pipe."""

import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path

from tests.servers.private import PrivateProcess

DOMAIN = "shop.example"
PIPE_USER = "nobody"  # Postfix refuses to run a pipe as root
MAIN = """
compatibility_level = 3.6
queue_directory = {home}/queue
data_directory = {home}/data
maillog_file = {home}/mail.log
maillog_file_prefixes = {home}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
myhostname = mx.{domain}
mydestination =
alias_maps =
alias_database =
local_recipient_maps =
relay_domains = {domain}
relay_transport = mayfly
smtpd_relay_restrictions = permit_mynetworks, reject
"""
MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
pickup  unix  n - n 60 1 pickup
cleanup unix  n - n - 0 cleanup
qmgr    unix  n - n 300 1 qmgr
rewrite unix  - - n - - trivial-rewrite
bounce  unix  - - n - 0 bounce
defer   unix  - - n - 0 bounce
trace   unix  - - n - 0 bounce
flush   unix  n - n 1000? 0 flush
proxymap unix - - n - - proxymap
error   unix  - - n - - error
retry   unix  - - n - - error
showq   unix  n - n - - showq
anvil   unix  - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
mayfly  unix  - n n - 2 pipe
  flags=DOR user={user} argv={home}/pipe --recipient ${{original_recipient}} --sender ${{sender}}
"""


class Postfix(PrivateProcess):
    """The script `pipe` in its directory gets each message; the caller writes it."""

    package = "postfix"
    account = "root"  # the master process must be root; those that touch mail are not
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        super().__init__("postfix")

    @classmethod
    def programs(cls) -> tuple[Path, Path] | None:
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
        postfix, master = shutil.which("postfix", path=path), Path("/usr/lib/postfix/sbin/master")
        return (Path(postfix), master) if postfix and master.exists() and os.geteuid() == 0 else None

    @property
    def log(self) -> str:
        path = self.home / "mail.log"
        return path.read_text() if path.exists() else ""

    def initialise(self, program: Path) -> None:
        self.home.chmod(0o755)  # the user of the pipe must reach the script
        configuration = self.home / "etc"
        configuration.mkdir()
        named = {"home": self.home, "port": self.port, "domain": DOMAIN, "user": PIPE_USER}
        (configuration / "main.cf").write_text(MAIN.format(**named))
        (configuration / "master.cf").write_text(MASTER.format(**named))
        (self.home / "queue").mkdir()
        data = self.home / "data"
        data.mkdir(mode=0o700)
        shutil.chown(data, "postfix", "postfix")
        self.run(program, "-c", configuration, "check")

    def command(self, program: Path) -> list[str]:
        return [str(program), "-c", str(self.home / "etc"), "-d"]

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            return connection.recv(4) == b"220 "
        return False

    def try_again(self) -> None:
        """Deliver the mail in the queue now."""
        self.run(Path("/usr/sbin/postqueue"), "-c", self.home / "etc", "-f")
