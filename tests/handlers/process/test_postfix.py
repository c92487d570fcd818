"""A real Postfix that delivers into scripts/inbound."""

import os
import smtplib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import Databases
from tests.handlers.mailroom.office import MailOffice
from tests.handlers.mailroom.shapes import OURS, Dsn, message
from tests.handlers.process.installation import HandlersInstallation
from tests.process.installation import CHECKOUT, wait_until
from tests.servers import Postfix
from tests.servers.postfix import DOMAIN, PIPE_USER

PIPE = """#!/bin/sh
export {settings}
exec {checkout}/scripts/inbound "$@"
"""


@pytest.fixture(scope="module")
def postfix(databases: Databases) -> Postfix:
    return databases.postfix()


def write_pipe(postfix: Postfix, installation: HandlersInstallation, **changes: str) -> None:
    """The script that Postfix runs. Packages come from this interpreter, which its user may not run itself."""
    site = next(each for each in sys.path if each.endswith("site-packages"))
    home = postfix.home / "mayfly"
    home.mkdir(mode=0o755, exist_ok=True)
    settings = {**installation.environment(), "MAYFLY_HOME": str(home), "PYTHONPATH": site, **changes}
    text = PIPE.format(settings=" ".join(f"{name}='{value}'" for name, value in settings.items()), checkout=CHECKOUT)
    path = postfix.home / "pipe"
    path.write_text(text)
    path.chmod(0o755)


def may_run_the_checkout() -> bool:
    """Whether the user of the pipe may read the checkout and its packages, and has a Python for them."""
    probe = f"import sys; sys.path[:0] = {[str(CHECKOUT), *sys.path]}; import handlers.mailroom.intake"
    as_user = ["setpriv", f"--reuid={PIPE_USER}", "--clear-groups", "python3", "-c", probe]
    environment = {"PATH": os.defpath, "MAYFLY_HOME": "/tmp"}
    return subprocess.run(as_user, env=environment, cwd="/", check=False, capture_output=True).returncode == 0


def send(postfix: Postfix, sender: str, recipient: str, raw: bytes) -> None:
    with smtplib.SMTP("127.0.0.1", postfix.port, timeout=30) as smtp:
        smtp.sendmail(sender, [recipient], raw)


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["mariadb"], indirect=True)
def test_postfix_delivers_into_the_pipe(installation: HandlersInstallation, postfix: Postfix, tmp_path: Path) -> None:
    """What cannot be stored stays in its queue; a bounce to a VERP address finds its email."""
    if not may_run_the_checkout():
        pytest.skip(f"the user {PIPE_USER} may not read {CHECKOUT}, or python3 is not this Python")
    office = MailOffice(installation.url)
    office.send()
    write_pipe(postfix, installation, MAIL_STORE="/nonexistent")
    send(postfix, "bob@example.com", f"ann@{DOMAIN}", message("Dear Ann"))
    wait_until(lambda: "status=deferred" in postfix.log, "Postfix keeps the message")
    kept = office.count("app_mail_blobs")

    write_pipe(postfix, installation)
    postfix.try_again()
    send(postfix, "", f"bounces+{OURS.partition('@')[0]}@{DOMAIN}", Dsn(returned="").raw())
    wait_until(lambda: office.count("app_mail_blobs") == 2, f"both messages are stored: {postfix.log}")
    while installation.statuses().keys() & {"pending", "processing"}:
        installation.dispatch()

    assert kept == 0
    assert office.rows("SELECT type, status FROM app_mail_messages ORDER BY type") == [
        ("bounce", "processed"), ("plain", "processed"),
    ]  # fmt: skip
    assert office.rows("SELECT status, bounce_type FROM app_mail_deliveries") == [("bounced", "hard")]
    assert "status=bounced" not in postfix.log
