"""The only package that asks which database this is. Each difference says why it is one."""

from mayfly.dialect.base import Dialect, Trouble, Unit, utc_from_driver
from mayfly.dialect.choose import DIALECTS, dialect_named, dialect_of_driver, dialect_of_url, embedded_file

__all__ = [
    "DIALECTS",
    "Dialect",
    "Trouble",
    "Unit",
    "dialect_named",
    "dialect_of_driver",
    "dialect_of_url",
    "embedded_file",
    "utc_from_driver",
]
