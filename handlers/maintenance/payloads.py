"""The payloads of maintenance jobs. They set how long data is kept, never which table or directory is cleaned."""

from typing import Annotated, Literal

from pydantic import Field

from handlers.payloads import Payload

Days = Annotated[float, Field(ge=1, le=36_500, allow_inf_nan=False)]
Probe = Literal["database", "disk", "memory", "smtp", "providers"]
PROBES: tuple[Probe, ...] = ("database", "disk", "memory", "smtp", "providers")


class PurgeSessions(Payload):
    days: Days = 30  # since the last use of a session


class VacuumLogs(Payload):
    days: Days = 30  # of rows
    file_days: Days = 30  # of files, since they were modified
    file_bytes: Annotated[int, Field(ge=0, le=2**63 - 1)] = 1 << 30  # of all files together; the oldest are deleted


class PruneRecords(Payload):
    """No fields: each table has a setting."""


class RollUpMetrics(Payload):
    point_days: Days = 7  # of counted points
    minute_days: Days = 30  # of rollups per minute


class CheckHealth(Payload):
    only: Annotated[tuple[Probe, ...], Field(min_length=1, max_length=5)] = PROBES
