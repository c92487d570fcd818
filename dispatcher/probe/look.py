"""Whether a full cycle would find anything to do. Reads, and can only doubt: who has none is surely idle."""

from collections.abc import Iterator
from datetime import datetime

from dispatcher.probe.drivers import Session
from mayfly.clock import milliseconds
from mayfly.jobs.keep import cutoff
from mayfly.settings import Settings


def doubts(session: Session, settings: Settings, now: datetime) -> Iterator[str]:
    """What a full cycle might do something about, or have to tell of: rather too much than too little."""
    if not session.server.is_known:
        yield f"{session.server} is too old or too strange"
    if session.ask("version") != [(session.schema_version,)]:
        yield "the tables are those of another version"
    if session.planning_lock().holder is not None:
        yield "somebody plans, or died planning"
    if session.ask("live runners"):
        yield "a runner is alive, or ended unseen"
    if any(passed_over for _lane, passed_over in session.ask("passed over")):
        yield "a lane was passed over"
    lanes = list(_lanes(session))
    for lane in lanes:
        if any(pending for _lane, pending in session.ask("due", lane=lane, now=now)):
            yield f"{lane} has due jobs"
        if session.ask("processing", lane=lane):
            yield f"{lane} has jobs that are being processed"
    yield from _prunable(session, settings, lanes, now)


def _lanes(session: Session) -> Iterator[str]:
    """As mayfly.jobs.count.find_lanes: hop from one to the next."""
    ((lane,),) = session.ask("next lane", lane="")
    while lane is not None:
        yield lane
        ((lane,),) = session.ask("next lane", lane=lane)


def _prunable(session: Session, settings: Settings, lanes: list[str], now: datetime) -> Iterator[str]:
    for search in session.searches:
        days = getattr(settings, search.setting)
        if days is not None:
            before = cutoff(now, days)
            for lane in lanes if search.by_lane else [""]:
                if session.ask(search.name, lane=lane, before=before, before_ms=milliseconds(before)):
                    yield f"rows are older than {search.setting}"
