"""Merge two prospects into one, and store what is needed to undo it; propose pairs for review."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, insert, or_, select, update

from handlers.prospects.payloads import ReviewMerge, UndoMerge
from handlers.prospects.tables import (
    EMAIL_FIELDS,
    FIELDS,
    KNOWN,
    Prospect,
    lock,
    merges,
    proposals,
    prospects,
    store,
)
from handlers.upsert import insert_missing
from mayfly import Dead, Job

UNDONE_PER_COMMIT = 100
OPEN, MERGED, REJECTED, OBSOLETE = "open", "merged", "rejected", "obsolete"  # states of a proposal


class ProspectPair(NamedTuple):
    """Two prospects that are the same person, or may be; the older one wins."""

    winner: int
    loser: int
    rule: str
    score: float
    is_certain: bool = True  # otherwise a person decides


def merge(connection: Connection, pairs: Sequence[ProspectPair], job_id: int, now: datetime) -> int:
    """Merge in one transaction and return how many. Skips pairs already merged, or whose merge was undone."""
    found = lock(connection, _ids(pairs))
    undone = _undone_pairs(connection, pairs)
    changed: dict[int, Prospect] = {}
    merged: list[dict[str, Any]] = []
    for pair in pairs:
        loser, winner = found.get(pair.loser), _surviving(found, pair.winner)
        if loser is None or winner is None or loser["merged_into"] is not None or loser is winner:
            continue
        if frozenset((loser["id"], winner["id"])) in undone:
            continue
        changes = _complete(winner, loser)
        loser["merged_into"] = winner["id"]
        if changes:
            changed[winner["id"]] = winner
        merged.append(
            {"winner_id": winner["id"], "loser_id": loser["id"], "rule": pair.rule, "score": pair.score,
             "changes": json.dumps(changes), "job_id": job_id, "merged_at": now}
        )  # fmt: skip
    if merged:
        store(connection, list(changed.values()), now)
        _mark_losers(connection, merged)
        connection.execute(insert(merges), merged)
    return len(merged)


def propose(connection: Connection, pairs: Sequence[ProspectPair], job_id: int, now: datetime) -> None:
    """Store pairs for review, each once. Skips pairs whose merge was undone."""
    undone = _undone_pairs(connection, pairs)
    common = {"state": OPEN, "job_id": job_id, "proposed_at": now}
    rows = [
        {**common, "winner_id": pair.winner, "loser_id": pair.loser, "score": pair.score}
        for pair in pairs
        if frozenset((pair.winner, pair.loser)) not in undone
    ]
    if rows:
        insert_missing(connection, proposals, rows)


def count_proposals(connection: Connection, job_id: int) -> int:
    query = select(func.count()).select_from(proposals).where(proposals.c.job_id == job_id)
    return int(connection.execute(query).scalar_one())


def review(job: Job, wanted: ReviewMerge) -> dict[str, str]:
    """Merge or reject a proposed pair; return its new state."""
    return {"state": job.write(lambda connection: _review(connection, wanted, job.id, job.now))}


def _review(connection: Connection, wanted: ReviewMerge, job_id: int, now: datetime) -> str:
    """A pair of which one was merged in the meantime is obsolete."""
    p = proposals.c
    query = select(p.winner_id, p.loser_id, p.score, p.state).where(p.id == wanted.proposal).with_for_update()
    found = connection.execute(query).first()
    if found is None:
        raise Dead(f"there is no proposal {wanted.proposal}")
    winner_id, loser_id, score, state = found
    if state != OPEN:
        return str(state)
    if wanted.merge:
        pair = ProspectPair(winner_id, loser_id, "review", score)
        state = MERGED if merge(connection, [pair], job_id, now) else OBSOLETE
    else:
        state = REJECTED
    connection.execute(update(proposals).where(p.id == wanted.proposal).values(state=state, reviewed_at=now))
    return str(state)


def _mark_losers(connection: Connection, merged: Sequence[dict[str, Any]]) -> None:
    mark = (
        update(prospects)
        .where(prospects.c.id == bindparam("loser_id"))
        .values(merged_into=bindparam("winner_id"), updated_at=bindparam("merged_at"))
    )
    names = ("loser_id", "winner_id", "merged_at")
    connection.execute(mark, [{name: each[name] for name in names} for each in merged])


def undo_merges(job: Job, wanted: UndoMerge) -> dict[str, int]:
    """Undo one merge, or all merges of one run of dedup_prospects, newest first."""
    if wanted.merge is not None:
        merge_id = wanted.merge
        return {"undone": int(job.write(lambda connection: undo(connection, merge_id, job.id, job.now)))}
    done: int = job.state or 0
    while some := job.write(lambda connection: _undo_some(connection, wanted.run, job)):
        done += some
        job.checkpoint(done)
    return {"undone": done}


def _undo_some(connection: Connection, run: int | None, job: Job) -> int:
    of_run = select(merges.c.id).where(merges.c.job_id == run, merges.c.undone_at.is_(None))
    ids = connection.scalars(of_run.order_by(merges.c.id.desc()).limit(UNDONE_PER_COMMIT)).all()
    return sum(undo(connection, each, job.id, job.now) for each in ids)


def undo(connection: Connection, merge_id: int, job_id: int, now: datetime) -> bool:
    """Return False if it was already undone. Fields of the winner that have changed since keep their values."""
    m = merges.c
    query = select(m.winner_id, m.loser_id, m.changes, m.undone_at).where(m.id == merge_id).with_for_update()
    found = connection.execute(query).first()
    if found is None:
        raise Dead(f"there is no merge {merge_id}")
    winner_id, loser_id, changes, undone_at = found
    if undone_at is not None:
        return False
    rows = lock(connection, {winner_id, loser_id})
    _refuse_later_merges(connection, merge_id, winner_id)
    winner = rows.get(winner_id)
    if winner is not None:
        _restore(winner, json.loads(changes))
        store(connection, [winner], now)
    connection.execute(update(prospects).where(prospects.c.id == loser_id).values(merged_into=None, updated_at=now))
    connection.execute(update(merges).where(m.id == merge_id).values(undone_at=now, undone_by=job_id))
    return True


def _refuse_later_merges(connection: Connection, merge_id: int, winner_id: int) -> None:
    m = merges.c
    is_later = or_((m.winner_id == winner_id) & (m.id > merge_id), m.loser_id == winner_id)
    later = connection.scalar(select(func.max(m.id)).where(m.undone_at.is_(None), is_later))
    if later is not None:
        raise Dead(f"merge {later} of prospect {winner_id} is newer: undo it first")


def _undone_pairs(connection: Connection, pairs: Sequence[ProspectPair]) -> set[frozenset[int]]:
    """Pairs whose merge was undone. They are never merged again, in either direction."""
    m = merges.c
    query = select(m.winner_id, m.loser_id).where(m.undone_at.is_not(None), m.loser_id.in_(_ids(pairs)))
    return {frozenset((winner_id, loser_id)) for winner_id, loser_id in connection.execute(query)}


def _ids(pairs: Sequence[ProspectPair]) -> list[int]:
    return sorted({each for pair in pairs for each in (pair.winner, pair.loser)})


def _surviving(found: Mapping[int, Prospect], prospect_id: int) -> Prospect | None:
    """Follows the merges of this transaction; None if it was merged into a prospect that is not locked here."""
    prospect = found.get(prospect_id)
    while prospect is not None and prospect["merged_into"] is not None:
        prospect = found.get(prospect["merged_into"])
    return prospect


def _complete(winner: Prospect, loser: Prospect) -> dict[str, list[Any]]:
    """Copy longer fields from loser to winner; return old and new value by field."""
    before = {name: winner[name] for name in KNOWN}
    if not winner["email"]:  # an address is never replaced: longer is not better
        winner.update({name: loser[name] for name in ("email", *EMAIL_FIELDS)})
    for name in FIELDS:
        if name != "email" and len(loser[name] or "") > len(winner[name] or ""):
            winner[name] = loser[name]
    return {name: [old, winner[name]] for name, old in before.items() if winner[name] != old}


def _restore(winner: Prospect, changes: Mapping[str, Sequence[Any]]) -> None:
    winner.update({name: before for name, (before, after) in changes.items() if winner[name] == after})
