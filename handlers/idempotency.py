"""Idempotency of effects that cannot be undone: emails, notifications, posts. Each has a row, written before a call.

open → handed over → done. If a run finds `handed over`, an earlier run called the provider and did not store its
response: the effect may have happened.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Integer, String, Table, bindparam, select, update

from handlers.schema import Id, LongText, UtcTimestamp, metadata
from handlers.upsert import insert_missing
from mayfly import Job, Retry

OPEN, HANDED_OVER, DONE = "open", "handed over", "done"
HOLD, RESEND = "hold", "resend"

AlsoWrite = Callable[[Connection], object]  # commits together with the change of an effect

effects = Table(
    "app_idempotency",
    metadata,
    Column("effect_key", String(190), primary_key=True),  # one per intended effect, for all jobs and attempts
    Column("kind", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("job_id", Id, nullable=False),
    Column("claims", Integer, nullable=False),  # fencing token of the run that wrote it
    Column("provider", String(190)),
    Column("answer", LongText),
    Column("changed_at", UtcTimestamp, nullable=False),
)


def may_resend(job: Job, usual: str = HOLD) -> bool:
    """Whether to repeat an effect that may have happened: `on_doubt` of the job's lane, or else `usual`."""
    return (job.on_doubt or usual) == RESEND


class EffectRecord(NamedTuple):
    state: str
    job_id: int
    claims: int
    provider: str | None
    answer: str | None
    changed_at: datetime

    @property
    def run(self) -> tuple[str, int, int]:
        """The state, and the run that wrote it."""
        return self.state, self.job_id, self.claims


# Constants, because building a statement takes longer than its execution.
RECORD = select(*(effects.c[name] for name in EffectRecord._fields)).where(effects.c.effect_key == bindparam("key"))
IN_STATE = update(effects).where(effects.c.effect_key == bindparam("key"), effects.c.state == bindparam("found"))
OWN = IN_STATE.where(effects.c.job_id == bindparam("owner"), effects.c.claims == bindparam("token"))


class Effect:
    """One intended effect, in one run of one job."""

    def __init__(self, job: Job, kind: str, key: str) -> None:
        self._job = job
        self._kind = kind
        self.key = f"{kind}:{key}"

    def load(self) -> EffectRecord:
        """Return the record of earlier runs; without one, the effect is open."""
        return self._job.read(self.load_on)

    def load_on(self, connection: Connection) -> EffectRecord:
        return self._select(connection) or EffectRecord(OPEN, provider=None, answer=None, **self._owner())

    def hand_over(self, provider: str, found: str = OPEN, also: AlsoWrite | None = None) -> None:
        """Record that the provider is about to be called. `found` is the state that this run has read."""
        owned = {"state": HANDED_OVER, "provider": provider, **self._owner()}
        key, first = {"key": self.key, "found": found}, {"effect_key": self.key, "kind": self._kind, **owned}

        def write(connection: Connection) -> bool:
            is_ours = found == OPEN and insert_missing(connection, effects, first) == 1
            if not is_ours:
                connection.execute(IN_STATE, {**key, **owned})
                # Read back, because rowcount may be 0: if the reply to a COMMIT was lost, the row is already changed.
                record = self._select(connection)
                is_ours = record is not None and record.run == (HANDED_OVER, self._job.id, self._job.claims)
            if is_ours and also is not None:
                also(connection)
            return is_ours

        if not self._job.write(write):
            raise Retry(f"another job is working on the same effect: {self.key}")

    def keep_time(self, at: datetime) -> None:
        """Keep the time of the first try: the provider stores an idempotency key for some time from then."""
        keep = update(effects).where(effects.c.effect_key == self.key, effects.c.state == HANDED_OVER)
        self._job.write(lambda connection: connection.execute(keep.values(changed_at=at)))

    def complete(self, answer: str, also: AlsoWrite | None = None) -> None:
        """Record that it has happened. The writes of `also` commit together with that."""
        self._settle(DONE, answer, also)

    def reopen(self, answer: str, also: AlsoWrite | None = None) -> None:
        """Record that the effect has certainly not happened."""
        self._settle(OPEN, answer, also)

    def _settle(self, state: str, answer: str, also: AlsoWrite | None) -> None:
        owner = self._owner()
        own = {"key": self.key, "found": HANDED_OVER, "owner": owner["job_id"], "token": owner["claims"]}
        values = {"state": state, "answer": answer, "changed_at": owner["changed_at"]}

        def write(connection: Connection) -> None:
            connection.execute(OWN, {**own, **values})
            if also is not None:
                also(connection)

        self._job.write(write)

    def _select(self, connection: Connection) -> EffectRecord | None:
        found = connection.execute(RECORD, {"key": self.key}).first()
        return None if found is None else EffectRecord._make(found)

    def _owner(self) -> dict[str, Any]:
        return {"job_id": self._job.id, "claims": self._job.claims, "changed_at": self._job.now}
