"""The pool of mail accounts, from the setting SMTP_ACCOUNTS."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mayfly import MayflyError, concurrency, rate

USUAL_PORTS = {"smtps": 465, "smtp": 587}
TLS_KINDS = ("starttls", "none")


class BadAccount(MayflyError):
    """Contains the position in the list, never the account, which has a password."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"SMTP_ACCOUNTS: account {position} {reason}.")


@dataclass(frozen=True)
class Account:
    name: str
    host: str
    port: int
    sender: str
    tls: str  # "tls" from the start, "starttls", or "none"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    daily: int = 500
    at_once: int = 2
    ca_file: str | None = None
    lanes: tuple[str, ...] = ()  # whose email it sends; empty: all

    def serves(self, lane: str) -> bool:
        return not self.lanes or lane in self.lanes

    @property
    def key(self) -> str:
        """The key of its limits."""
        return f"mail:{self.name}"


def read_accounts(text: str) -> tuple[Account, ...]:
    """Read URLs separated by whitespace: smtp://user:password@host:587?daily=500&at_once=2&from=ann@example.com."""
    accounts = tuple(_read(position, each) for position, each in enumerate(text.split(), 1))
    names = [each.name for each in accounts]
    for position, name in enumerate(names, 1):
        if name in names[: position - 1]:
            raise BadAccount(position, "is listed twice; list it once, with a higher quota")
    return accounts


def _read(position: int, url: str) -> Account:
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    unknown = options.keys() - {"from", "daily", "at_once", "tls", "ca", "lanes"}
    if parts.scheme not in USUAL_PORTS or not parts.hostname or unknown:
        raise BadAccount(position, "must be like smtp://user:password@host:587?daily=500&at_once=2&from=ann@host")
    tls = "tls" if parts.scheme == "smtps" else options.get("tls", "starttls")
    if tls not in ("tls", *TLS_KINDS):
        raise BadAccount(position, f"has an invalid tls=: use {' or '.join(TLS_KINDS)}")
    user = unquote(parts.username) if parts.username else None
    sender = options.get("from") or user or ""
    if "@" not in sender or not sender.isascii() or not sender.isprintable():
        raise BadAccount(position, "needs from= with an address")
    try:
        port = parts.port or USUAL_PORTS[parts.scheme]
        daily, at_once = (int(options.get(name, usual)) for name, usual in (("daily", 500), ("at_once", 2)))
    except ValueError:
        raise BadAccount(position, "has a port, daily or at_once that is not a number") from None
    password = unquote(parts.password) if parts.password else None
    name, lanes = f"{sender}/{parts.hostname}:{port}", tuple(filter(None, options.get("lanes", "").split(",")))
    return Account(
        name, parts.hostname, port, sender, tls, user, password, daily, at_once, options.get("ca"), lanes
    )  # fmt: skip


def limits_of(accounts: Iterable[Account]) -> list[Any]:
    """Two limits with the account's key: job.take grants both or neither."""
    return [
        limit
        for each in accounts
        for limit in (rate(each.key, each.daily, per="day"), concurrency(each.key, each.at_once))
    ]
