"""The directory of the demo: settings, database, logs and the files that jobs write."""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import click

from mayfly.db.database import Database

MARK = ".mayfly-demo"
CRON_DIRECTORY = Path("cron.d/schedule.d")
STORES = ("mail", "attachments", "archives", "imports")


class Home:
    def __init__(self, directory: Path, checkout: Path) -> None:
        self.path = directory
        self.checkout = checkout
        self.url = f"sqlite:///{directory}/mayfly.db"
        self.console_password = secrets.token_urlsafe(12)
        self.mail, self.attachments, self.archives, self.imports = (directory / name for name in STORES)

    def empty(self) -> None:
        """Only a directory of an earlier demo is emptied: a mistyped --home deletes nothing."""
        if self.path.exists() and any(self.path.iterdir()) and not (self.path / MARK).exists():
            raise click.ClickException(f"{self.path} is no directory of a demo: name another directory with --home.")
        shutil.rmtree(self.path, ignore_errors=True)
        for name in (*STORES, "logs", CRON_DIRECTORY):
            (self.path / name).mkdir(parents=True)
        (self.path / "handlers").symlink_to(self.checkout / "handlers")  # MAYFLY_HOME is on the import path
        (self.path / MARK).touch()

    def configure(self, mail_port: int, http_port: int) -> None:
        """As in production, except for the addresses of services."""
        shutil.copy(self.checkout / "handlers/mayfly.toml", self.path / "mayfly.toml")
        shutil.copy(self.checkout / "handlers/schedule", self.path / CRON_DIRECTORY / "platform")
        settings = {"DATABASE_URL": self.url, **self._directories(), **_integrations(mail_port, http_port)}
        env = self.path / ".env"
        env.touch(mode=0o600)
        env.write_text("".join(f"{name}='{value}'\n" for name, value in settings.items()))
        os.environ["MAYFLY_HOME"] = str(self.path)
        hashed = self.run("mayfly", "password", given=self.console_password)
        with env.open("a") as file:
            file.write(hashed)
        self.run("mayfly", "migrate")
        self.run("mayfly", "migrate", "--app")

    def _directories(self) -> dict[str, str]:
        return {
            "LINGER": "55",
            "MAIL_ATTACHMENTS": str(self.attachments),
            "BOARD_ARCHIVES": str(self.archives),
            "IMPORT_FILES": str(self.imports),
            "LOG_FILES_DIR": str(self.path / "logs"),
        }

    def run(self, *arguments: str, given: str = "") -> str:
        """Run `python -m …` with this input; return its output."""
        command = [sys.executable, "-m", *arguments]
        result = subprocess.run(command, input=given, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if result.returncode != 0:
            raise click.ClickException(f"{' '.join(arguments)} failed: {result.stderr.strip()}")
        return result.stdout

    def start_cycle(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-m", "dispatcher"])

    def open(self) -> Database:
        return Database(self.url)


def _integrations(mail_port: int, http_port: int) -> dict[str, str]:
    """Addresses of the fake services; the keys are placeholders."""
    accounts = [
        f"smtp://127.0.0.1:{mail_port}?from={name}@garden.example&tls=none&daily=100000&at_once=3"
        for name in ("hello", "news")
    ]
    services = f"http://127.0.0.1:{http_port}"
    return {
        "SMTP_ACCOUNTS": " ".join(accounts),
        "UNSUBSCRIBE_URL": "https://garden.example/leave/{token}",
        "UNSUBSCRIBE_SECRET": "only-for-the-demo-only-for-the-demo",
        "INVOICE_SELLER": r"Garden Platform\nGreen Lane 1\n04103 Leipzig",
        "CHANNEL_MASTODON_TOKEN": "demo",
        "CHANNEL_HOOK_SECRET": "whsec_ZGVtby1kZW1vLWRlbW8tZGVtby1kZW1v",
        "PRIVATE_HOSTS": "127.0.0.1",
        "HUNTER_URL": f"{services}/hunter",
        "HUNTER_API_KEY": "demo",
        "SCRAPERS": f"{services}/scraper-1 {services}/scraper-2",
        "OPENAI_URL": f"{services}/model/v1",
        "OPENAI_API_KEY": "demo",
    }
