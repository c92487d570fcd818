"""The ledger of what cannot be taken back: each intended effect has one row, written before it is tried.

open → handed over → done. Whoever finds `handed over` cannot know whether it has happened: that is doubt.
"""

from typing import Any, NamedTuple

from mayfly import Job, Retry

OPEN, HANDED_OVER, DONE = "open", "handed over", "done"
COLUMNS = ("effect_key", "kind", "state", "job_id", "claims", "changed_at")
LOOK = "SELECT state, job_id, claims, provider, answer FROM app_effects WHERE effect_key = :effect_key"
HAND_OVER = (
    "UPDATE app_effects SET state = 'handed over', job_id = :job_id, claims = :claims, provider = :provider,"
    " changed_at = :changed_at WHERE effect_key = :effect_key AND state = :state"
)
SETTLE = (
    "UPDATE app_effects SET state = :state, answer = :answer, changed_at = :changed_at"
    " WHERE effect_key = :effect_key AND state = 'handed over' AND job_id = :job_id AND claims = :claims"
)


def may_resend(job: Job, usual: str) -> bool:
    """Whether what was handed over, with an answer that nobody knows, is tried again."""
    return (getattr(job, "on_doubt", None) or usual) == "resend"


class Entry(NamedTuple):
    """What is known of an effect."""

    state: str
    job_id: int
    claims: int
    provider: str | None
    answer: str | None


class Effect:
    """One intended effect, as the run of one job sees it."""

    def __init__(self, job: Job, kind: str, key: str) -> None:
        self._job = job
        self._kind = kind
        self.key = f"{kind}:{key}"

    def look(self) -> Entry:
        """What earlier runs have left; the row is there from now on."""

        def find(connection: Any) -> Entry:
            statement = connection.dialect.insert_missing("app_effects", ("effect_key",), COLUMNS)
            connection.execute(statement, {**self._mine(), "kind": self._kind, "state": OPEN})
            return Entry(*connection.execute(LOOK, {"effect_key": self.key}).first())

        return self._job.write(find)

    def hand_over(self, provider: str, found: str = OPEN) -> None:
        """From here on nobody knows, until the answer is written down. `found` is the state that was looked at."""

        def mark(connection: Any) -> Entry:
            connection.execute(HAND_OVER, {**self._mine(), "provider": provider, "state": found})
            return Entry(*connection.execute(LOOK, {"effect_key": self.key}).first())

        entry = self._job.write(mark)
        # Not by the number of changed rows: after a COMMIT whose answer was lost it is done already.
        if (entry.state, entry.job_id, entry.claims) != (HANDED_OVER, self._job.id, self._job.claims):
            raise Retry(f"another job is at the same effect: {self.key}")

    def done(self, answer: str) -> None:
        self._settle(DONE, answer)

    def reopen(self, answer: str) -> None:
        """It has surely not happened."""
        self._settle(OPEN, answer)

    def _settle(self, state: str, answer: str) -> None:
        self._job.write(
            lambda connection: connection.execute(SETTLE, {**self._mine(), "state": state, "answer": answer})
        )

    def _mine(self) -> dict[str, Any]:
        return {
            "effect_key": self.key, "job_id": self._job.id, "claims": self._job.claims,
            "changed_at": self._job.now,
        }  # fmt: skip
