"""Measure what this host can still carry, and turn that into slots for the plan."""

import os
from dataclasses import dataclass

import psutil

from dispatcher.plan import Slots

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class Headroom:
    available_memory: int  # bytes that can be had without swapping
    load_per_core: float  # of the last minute


def measure() -> Headroom:
    one_minute, _, _ = os.getloadavg()
    return Headroom(psutil.virtual_memory().available, one_minute / (os.cpu_count() or 1))


def slots(
    headroom: Headroom, *, host_max_workers: int, running_here: int, min_free_memory: int, max_load: float
) -> Slots:
    """What is free, and what limits it more: memory (bytes a new runner needs) or load; 0 turns one off."""
    free = max(0, host_max_workers - running_here)
    limits = []
    if min_free_memory:
        text = f"free memory {headroom.available_memory // MEGABYTE} MB"
        limits.append((headroom.available_memory // min_free_memory, text))
    if max_load and headroom.load_per_core > max_load:
        limits.append((1, f"load {headroom.load_per_core:.1f} per core"))
    limit, limited_by = min(limits, key=lambda each: each[0], default=(free, ""))
    if not running_here:
        limit = max(1, limit)  # a host short of memory for good must still get its work done
    return Slots(free) if limit >= free else Slots(free, limit, limited_by)
