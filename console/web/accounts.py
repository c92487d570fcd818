"""Who may log in, and what each may do. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from mayfly.settings import Settings
from mayfly.settings.values import ROLES

VIEWER, OPERATOR, ADMIN = ROLES  # each may what those before it may


class Account(NamedTuple):
    name: str
    role: str
    password_hash: str


class Person(NamedTuple):
    """Somebody who is logged in."""

    name: str
    role: str

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


def accounts_of(settings: Settings) -> Mapping[str, Account]:
    """CONSOLE_PASSWORD_HASH is the password of the account `admin`, whatever CONSOLE_ACCOUNTS says of that name."""
    found = {
        name: Account(name, each.role, each.password_hash.get_secret_value())
        for name, each in settings.console_accounts.items()
    }
    if settings.console_password_hash is not None:
        found[ADMIN] = Account(ADMIN, ADMIN, settings.console_password_hash.get_secret_value())
    return found
