"""Turn a CSV record into a prospect, or reject it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from handlers.prospects.match_keys import is_mail, keys_of
from handlers.prospects.tables import FIELDS, MAX_LENGTHS


class RejectedRecord(Exception):
    """The message is the reason for the rejection."""


class RecordMapping:
    """The fields of a file's columns. Of two columns for one field, the first non-empty one counts."""

    def __init__(self, columns: Sequence[str | None]) -> None:
        self._width = len(columns)
        self._places = [(place, name) for place, name in enumerate(columns) if name is not None]

    def prospect(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return the prospect with its match keys."""
        if len(fields) < self._width or any(map(str.strip, fields[self._width :])):
            raise RejectedRecord(f"it has {len(fields)} fields, the header has {self._width}")
        values: dict[str, str] = {}
        for place, name in self._places:
            value = fields[place].strip() if name == "notes" else " ".join(fields[place].split())
            if value and name not in values:
                values[name] = value
        if "name" not in values:
            values["name"] = " ".join(values[name] for name in ("first_name", "last_name") if name in values)
        found = {name: values.get(name) or None for name in FIELDS}
        check(found)
        return {**found, **keys_of(found)}


def check(prospect: Mapping[str, str | None]) -> None:
    mail = prospect["email"]
    if mail is None and prospect["name"] is None:
        raise RejectedRecord("it has neither an email address nor a name")
    for name, value in prospect.items():
        if value is None:
            continue
        if "\0" in value:
            raise RejectedRecord(f"its {name} contains a NUL character")
        if len(value) > MAX_LENGTHS[name]:
            raise RejectedRecord(f"its {name} has {len(value):,} characters; the maximum is {MAX_LENGTHS[name]:,}")
    if mail is not None and not is_mail(mail):
        raise RejectedRecord("its email address is not valid")
