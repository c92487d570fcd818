"""Name many rows in a statement by their ids."""

from collections.abc import Callable, Iterable

from sqlalchemy import ColumnElement, Dialect, bindparam
from sqlalchemy.types import UserDefinedType

_COMPARISON = 5  # binds as = does: tighter than AND


class _Ids(UserDefinedType[tuple[int, ...]]):
    """A list of numbers that is written into the text as a whole."""

    cache_ok = True

    def literal_processor(self, _dialect: Dialect) -> Callable[[Iterable[int]], str]:
        return lambda ids: f"({','.join(map(str, ids))})"


def among(column: ColumnElement[int], ids: Iterable[int] | str) -> ColumnElement[bool]:
    """In ascending order: those who lock the same rows lock them in the same order.

    Written into the text when it is executed: numbers need no quoting, and a thousand parameters cost a runner more
    than all the rest of the statement. A text is the name under which they, sorted, will be given then.
    """
    name, numbers = (ids, None) if isinstance(ids, str) else (None, sorted(map(int, ids)))
    return column.bool_op("IN", precedence=_COMPARISON)(bindparam(name, numbers, _Ids(), literal_execute=True))
