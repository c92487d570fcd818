"""Take merges back: one, or all of one run, the newest first."""

from typing import Any

from handlers.prospects.merging import undo
from handlers.prospects.payloads import UndoMerge
from mayfly import Job

AT_ONCE = 100
OF_RUN = f"SELECT id FROM app_merges WHERE job_id = :run AND undone_at IS NULL ORDER BY id DESC LIMIT {AT_ONCE}"


def undo_merges(job: Job, wanted: UndoMerge) -> dict[str, int]:
    if wanted.merge is not None:
        number = wanted.merge
        return {"undone": int(job.write(lambda connection: undo(connection, number, job.id, job.now)))}
    done: int = job.state or 0
    while some := job.write(lambda connection: _undo_some(connection, wanted.run, job)):
        done += some
        job.checkpoint(done)
    return {"undone": done}


def _undo_some(connection: Any, run: int | None, job: Job) -> int:
    ids = connection.execute(OF_RUN, {"run": run}).scalars()
    return sum(undo(connection, each, job.id, job.now) for each in ids)
