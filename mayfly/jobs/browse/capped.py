"""Numbers that stop where it is no longer worth counting, and rows as JSON tells them. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mayfly.dialect import utc_from_driver

MOST_COUNTED = 10_000


class Capped(NamedTuple):
    number: int = 0
    is_more: bool = False  # the count stopped here

    @classmethod
    def of(cls, counted: int, cap: int) -> "Capped":
        """What was counted to one beyond the cap."""
        return cls(min(counted, cap), counted > cap)

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.is_more else f"{self.number:,}"


def told(at: datetime | None) -> str | None:
    """A time as JSON has it."""
    return None if at is None else at.astimezone(UTC).isoformat()


def facts_of(view: Any) -> dict[str, Any]:
    """A view's fields, with its times and numbers as JSON has them."""
    facts: dict[str, Any] = {}
    for name, value in view._asdict().items():
        if isinstance(value, Capped):
            facts |= {name: value.number, f"{name}_is_capped": value.is_more}
        else:
            facts[name] = told(value) if isinstance(value, datetime) else value
    return facts


def read_row(names: Sequence[str], row: Sequence[Any]) -> Mapping[str, Any]:
    """A row by the names of its columns; what ends in _at or _until is a time."""
    return {name: _read(name, value) for name, value in zip(names, row, strict=True)}


def _read(name: str, value: Any) -> Any:
    is_time = name.endswith(("_at", "_until"))
    return utc_from_driver(value) if is_time and value is not None else value
