"""What `mayfly doctor` found about one thing."""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, how it is, and what to do if it is not well."""

    what: str
    health: Health
    text: str

    @property
    def is_problem(self) -> bool:
        return self.health is Health.PROBLEM

    def facts(self) -> dict[str, str]:
        return {"check": self.what, "health": self.health.value, "text": self.text}
