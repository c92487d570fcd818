"""Handlers that use SIGALRM, as timeout libraries do."""

import signal
import time
from types import FrameType

from mayfly import Job, handler


class Elapsed(Exception):
    pass


def raise_elapsed(_number: int, _frame: FrameType | None) -> None:
    raise Elapsed


@handler("alarm_without_handler")
def alarm_without_handler(_job: Job) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(3600)


@handler("alarm_with_handler")
def alarm_with_handler(_job: Job) -> str:
    """Limits a part of its work by an alarm, and does not clean up."""
    signal.signal(signal.SIGALRM, raise_elapsed)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        time.sleep(3600)
    except Elapsed:
        return "elapsed"
    return "never"


@handler("alarm_left_behind")
def alarm_left_behind(_job: Job) -> None:
    """An alarm that would hit a later job."""
    signal.signal(signal.SIGALRM, raise_elapsed)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0.2)


@handler("short_sleep")
def short_sleep(_job: Job) -> None:
    time.sleep(0.02)


@handler("sleep_past_an_alarm")
def sleep_past_an_alarm(_job: Job) -> str:
    """Whether SIGALRM is pending or its handler foreign."""
    time.sleep(0.5)
    foreign = signal.getsignal(signal.SIGALRM) is raise_elapsed or signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    return "foreign" if foreign else "restored"
