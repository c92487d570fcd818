"""How long things are kept, and what is looked at. What is removed is never named by a payload, only its age."""

from typing import Annotated, Literal

from pydantic import Field

from handlers.fields import Payload

Days = Annotated[float, Field(ge=1, le=36_500, allow_inf_nan=False)]
Probe = Literal["database", "disk", "memory", "smtp", "providers"]
PROBES: tuple[Probe, ...] = ("database", "disk", "memory", "smtp", "providers")


class Sessions(Payload):
    days: Days = 30  # since a session was used last


class Logs(Payload):
    days: Days = 30  # of rows
    file_days: Days = 30
    file_bytes: Annotated[int, Field(ge=0, le=2**63 - 1)] = 1 << 30  # of all files together


class Figures(Payload):
    point_days: Days = 7  # of points that were counted
    minute_days: Days = 30  # of aggregates by the minute


class Look(Payload):
    only: Annotated[tuple[Probe, ...], Field(min_length=1, max_length=5)] = PROBES
