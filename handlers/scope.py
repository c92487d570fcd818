"""What runs queries: a job, or `mayfly.database()` outside of a job."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class Scope(Protocol):
    @property
    def now(self) -> datetime: ...

    def read(self, work: Callable[[Connection], T]) -> T: ...

    def write(self, work: Callable[[Connection], T]) -> T: ...
