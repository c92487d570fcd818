"""Make one of two prospects, with all that is needed to make them two again."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from handlers.prospects.tables import FIELDS, KNOWN, OF_THE_MAIL, Prospect, change, lock
from mayfly import Dead

MERGED = ("winner_id", "loser_id", "rule", "score", "changes", "job_id", "merged_at")
APART = "SELECT winner_id, loser_id FROM app_merges WHERE undone_at IS NOT NULL AND {ids of loser_id}"
PUT_ASIDE = "UPDATE app_prospects SET merged_into = :winner_id, updated_at = :merged_at WHERE id = :loser_id"
LOOK = "SELECT id, winner_id, loser_id, changes, undone_at FROM app_merges WHERE id = :id"
LATER = (
    "SELECT MAX(id) FROM app_merges WHERE undone_at IS NULL AND"
    " ((winner_id = :winner_id AND id > :id) OR loser_id = :winner_id)"
)
BRING_BACK = "UPDATE app_prospects SET merged_into = NULL, updated_at = :now WHERE id = :id"
UNDO = "UPDATE app_merges SET undone_at = :now, undone_by = :job_id WHERE id = :id"


class Pair(NamedTuple):
    """Two that are the same person; the one that came first wins."""

    winner: int
    loser: int
    rule: str
    score: float


def merge(connection: Any, pairs: Sequence[Pair], job_id: int, now: datetime) -> int:
    """In one transaction; how many there were. Those that somebody has merged meanwhile, or taken apart, are left."""
    found = lock(connection, {each for pair in pairs for each in pair[:2]})
    apart = _taken_apart(connection, pairs)
    changed: dict[int, Prospect] = {}
    merged: list[dict[str, Any]] = []
    for pair in pairs:
        loser, winner = found.get(pair.loser), _living(found, pair.winner)
        if loser is None or winner is None or loser["merged_into"] is not None or loser is winner:
            continue
        if frozenset((loser["id"], winner["id"])) in apart:
            continue
        changes = _enrich(winner, loser)
        loser["merged_into"] = winner["id"]
        if changes:
            changed[winner["id"]] = winner
        row = (winner["id"], loser["id"], pair.rule, pair.score, json.dumps(changes), job_id, now)
        merged.append(dict(zip(MERGED, row, strict=True)))
    if merged:
        change(connection, list(changed.values()), now)
        connection.execute_many(PUT_ASIDE, merged)
        connection.execute_many(connection.dialect.insert("app_merges", MERGED), merged)
    return len(merged)


def undo(connection: Any, merge_id: int, job_id: int, now: datetime) -> bool:
    """Whether there was anything left to undo. What the winner was given since stays as it is."""
    found = connection.execute(LOOK + connection.dialect.row_lock, {"id": merge_id}).first()
    if found is None:
        raise Dead(f"there is no merge {merge_id}")
    _, winner_id, loser_id, changes, undone_at = found
    if undone_at is not None:
        return False
    rows = lock(connection, {winner_id, loser_id})
    later = connection.execute(LATER, {"id": merge_id, "winner_id": winner_id}).scalar()
    if later is not None:
        raise Dead(f"merge {later} of prospect {winner_id} came later: undo that one first")
    winner = rows.get(winner_id)
    if winner is not None:
        _restore(winner, json.loads(changes))
        change(connection, [winner], now)
    connection.execute(BRING_BACK, {"id": loser_id, "now": now})
    connection.execute(UNDO, {"id": merge_id, "now": now, "job_id": job_id})
    return True


def _taken_apart(connection: Any, pairs: Sequence[Pair]) -> set[frozenset[int]]:
    """Who was brought back once is another person, whatever looks alike: both ways round."""
    ids = {each for pair in pairs for each in pair[:2]}
    return {frozenset(row) for row in connection.execute(APART, ids=ids).all()}


def _living(found: Mapping[int, Prospect], prospect_id: int) -> Prospect | None:
    """Through merges of this very transaction; one that is merged into somebody else is nobody's winner."""
    prospect = found.get(prospect_id)
    while prospect is not None and prospect["merged_into"] is not None:
        prospect = found.get(prospect["merged_into"])
    return prospect


def _enrich(winner: Prospect, loser: Prospect) -> dict[str, list[Any]]:
    """Give the winner what the loser knows better; what was and what is, by field."""
    before = {name: winner[name] for name in KNOWN}
    if not winner["email"]:  # an address is never replaced: the longer one is not the better one
        winner.update({name: loser[name] for name in ("email", *OF_THE_MAIL)})
    for name in FIELDS:
        if name != "email" and len(loser[name] or "") > len(winner[name] or ""):
            winner[name] = loser[name]
    return {name: [old, winner[name]] for name, old in before.items() if winner[name] != old}


def _restore(winner: Prospect, changes: Mapping[str, Sequence[Any]]) -> None:
    winner.update({name: before for name, (before, after) in changes.items() if winner[name] == after})
