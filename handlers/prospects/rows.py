"""Decide of one record whether it is a prospect, and which. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from handlers.prospects.keys import is_mail, keys_of
from handlers.prospects.tables import FIELDS, LENGTHS


class Rejected(Exception):
    """Why the record is no prospect."""


class Reading:
    """By what the header says. Of two columns of one kind the first holds that says something."""

    def __init__(self, columns: Sequence[str | None]) -> None:
        self._width = len(columns)
        self._places = [(place, name) for place, name in enumerate(columns) if name is not None]

    def prospect(self, fields: Sequence[str]) -> dict[str, Any]:
        """With the keys that it is compared by."""
        if len(fields) < self._width or any(map(str.strip, fields[self._width :])):
            raise Rejected(f"it has {len(fields)} fields, the header has {self._width}")
        said: dict[str, str] = {}
        for place, name in self._places:
            value = fields[place].strip() if name == "notes" else " ".join(fields[place].split())
            if value and name not in said:
                said[name] = value
        if "name" not in said:
            said["name"] = " ".join(said[name] for name in ("first_name", "last_name") if name in said)
        found = {name: said.get(name) or None for name in FIELDS}
        check(found)
        return {**found, **keys_of(found)}


def check(prospect: Mapping[str, str | None]) -> None:
    mail = prospect["email"]
    if mail is None and prospect["name"] is None:
        raise Rejected("it has neither a mail address nor a name")
    for name, value in prospect.items():
        if value is None:
            continue
        if "\0" in value:
            raise Rejected(f"there is a NUL character in its {name}")
        if len(value) > LENGTHS[name]:
            raise Rejected(f"its {name} has {len(value):,} characters, {LENGTHS[name]:,} fit")
    if mail is not None and not is_mail(mail):
        raise Rejected("its mail address is none")
