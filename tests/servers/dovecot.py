"""A private Dovecot: mailboxes over IMAP."""

import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path

from tests.servers.private import PrivateProcess

SPAM_FOLDER = "Junk"
PASSWORD = "r1ght/&:@"
# Every process runs as the same user, so nothing has to be done as root.
CONFIGURATION = """
base_dir = {home}/run
state_dir = {home}/run
log_path = /dev/stderr
protocols = imap
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
first_valid_uid = 1
mail_location = maildir:{home}/mail/%u
mail_fsync = never
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={home}/mail/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox {spam} {{
    auto = create
    special_use = \\Junk
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
"""


class Dovecot(PrivateProcess):
    """Every user name has a mailbox with an inbox and a spam folder, created at the first login."""

    package = "dovecot-imapd"
    account = "dovecot"
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        super().__init__("dovecot")

    @classmethod
    def programs(cls) -> tuple[Path, Path] | None:
        """It is in sbin, which is not always in PATH, and needs no data directory."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
        found = shutil.which("dovecot", path=path)
        has_imap = Path("/usr/lib/dovecot/imap").exists()
        return (Path(found), Path(found)) if found and has_imap else None

    def initialise(self, _program: Path) -> None:
        path = self.home / "dovecot.conf"
        user, group = path.parent.owner(), path.parent.group()
        named = {"user": user, "group": group, "password": PASSWORD, "spam": SPAM_FOLDER}
        path.write_text(CONFIGURATION.format(home=self.home, port=self.port, **named))

    def command(self, program: Path) -> list[str]:
        return [str(program), "-F", "-c", str(self.home / "dovecot.conf")]

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            return connection.recv(4) == b"* OK"
        return False
