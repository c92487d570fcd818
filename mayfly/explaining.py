"""What a driver's error means to a person."""

from mayfly.dialect import Dialect, Trouble
from mayfly.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseError,
    DatabaseFull,
    DatabaseRefused,
    DatabaseUnopenable,
    SchemaMissing,
)


def explain(error: BaseException, dialect: Dialect, where: str, tries: int = 1) -> DatabaseError | None:
    """The sentence for a person; None for an error that is our own mistake."""
    reason = first_line(error)
    explained: dict[Trouble, DatabaseError] = {
        Trouble.REPEAT: DatabaseBusy(where, tries, reason),
        Trouble.AWAY: DatabaseAway(where, reason),
        Trouble.REFUSED: DatabaseRefused(where, reason),
        Trouble.UNOPENABLE: DatabaseUnopenable(where, reason),
        Trouble.FULL: DatabaseFull(where, reason),
        Trouble.NO_TABLE: SchemaMissing(),
    }
    return explained.get(dialect.trouble(error))


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
