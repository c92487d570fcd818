"""The only package that asks which database this is. Each difference says why it is one."""

from mayfly.dialect.base import PLAIN, Dialect, Trouble, Unit, Values, utc_from_driver, utc_text
from mayfly.dialect.choose import DIALECTS, dialect_named, dialect_of_driver, dialect_of_url, embedded_file

__all__ = [
    "DIALECTS",
    "PLAIN",
    "Dialect",
    "Trouble",
    "Unit",
    "Values",
    "dialect_named",
    "dialect_of_driver",
    "dialect_of_url",
    "embedded_file",
    "utc_from_driver",
    "utc_text",
]
