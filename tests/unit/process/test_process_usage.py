"""Memory and CPU time of a live process, from /proc."""

import os

from mayfly.process.identity import process_usage

HIGHEST_PID = 1 << 22  # of Linux


def test_a_live_process_has_memory_and_cpu_time() -> None:
    """Its peak is never below what it uses now."""
    usage = process_usage(os.getpid())

    assert usage is not None
    assert 1 << 20 < usage.peak_memory < 1 << 40
    assert usage.cpu_ms > 0


def test_a_process_that_is_gone_has_no_usage() -> None:
    """None, instead of figures of 0."""
    assert process_usage(HIGHEST_PID + 1) is None
