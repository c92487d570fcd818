"""One schedule, as a line of a schedule file or a call of schedule() says it; and its line again. Pure values."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from mayfly import jsontext

EVERYTHING_UTC = "UTC"

CATCH_UP = ("latest", "none", "all")  # the first is the default
OVERLAP = ("allow", "skip")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = r"([0-9]{1,9})([smhd]?)"


@dataclass(frozen=True)
class Entry:
    name: str  # its identity over all hosts, files and edits
    expression: str  # five fields
    type: str
    payload: str = "{}"  # JSON
    command: str | None = None  # what type `command` runs
    lane: str = "default"
    tz: str = EVERYTHING_UTC
    catch_up: str = CATCH_UP[0]
    overlap: str = OVERLAP[0]
    jitter: int = 0  # seconds
    timeout: int | None = None  # seconds, of a command
    max_attempts: int | None = None
    where: str = field(default="", compare=False)  # "cron.d/schedule, line 3"
    written_at: datetime | None = field(default=None, compare=False)  # its file, at the latest

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.tz)

    @property
    def rule(self) -> str:
        """What decides when it is due: a schedule that has another rule than before has no past."""
        return f"{self.expression} {self.tz}"

    @property
    def what(self) -> str:
        return self.type if self.command is None else f"run: {self.command}"


def line_of(entry: Entry) -> str:
    """The line of a schedule file that says the same."""
    named = {"name": entry.name, "lane": entry.lane, "tz": entry.tz, "catch_up": entry.catch_up,
             "overlap": entry.overlap, "jitter": entry.jitter, "timeout": entry.timeout,
             "max_attempts": entry.max_attempts}  # fmt: skip
    usual = {**{each.name: each.default for each in Entry.__dataclass_fields__.values()}, "name": usual_name(entry)}
    options = [f"{name}={value}" for name, value in named.items() if value != usual[name]]
    if entry.command is not None:
        return " ".join([entry.expression, *options, "run:", entry.command])
    payload = [] if entry.payload == "{}" else [jsontext.encode(jsontext.decode(entry.payload))]
    return " ".join([entry.expression, entry.type, *payload, *options])


def usual_name(entry: Entry) -> str:
    return default_name(entry.type, entry.command)


def default_name(type_name: str, command: str | None) -> str:
    """Its type, or the program's own name: `nightly` for `run: scripts/nightly --all`."""
    return type_name if command is None else command.split()[0].rpartition("/")[2]


def read_duration(text: str) -> int:
    """Seconds: 90, 90s, 5m, 2h or 1d; a bare ValueError for anything else."""
    match = re.fullmatch(_DURATION, text)
    if match is None:
        raise ValueError
    return int(match[1]) * _UNITS[match[2] or "s"]
