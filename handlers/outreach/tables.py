"""The tables of blasts: the letter, one row a job with its figures, and one a recipient that was written to."""

from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Any

from handlers.mail import letters
from handlers.outreach.payloads import Outreach
from handlers.suppressions import among
from mayfly import Dead, Job

SENDING = "sending"
LETTER = ("letter_key", "subject", "text_body", "html_body", "created_at")
BLAST = ("job_id", "blast", "state", "started_at")
FIGURES = ("mails", "suppressed", "written", "unfit")
OUTCOMES = ("sent", "failed", "cancelled")
MAIL = ("blast", "address", "job_id", "written_by")

KEEP_FIGURES = f"UPDATE app_blasts SET {', '.join(f'{name} = :{name}' for name in FIGURES)} WHERE job_id = :job_id"
CLOSE = (
    f"UPDATE app_blasts SET state = 'sent', finished_at = :now, {', '.join(f'{name} = :{name}' for name in OUTCOMES)}"
    " WHERE job_id = :job_id AND state = 'sending'"
)
MAILS_OF_JOB = "SELECT COUNT(*) FROM app_blast_mails WHERE job_id = :job_id"


def letter_key(blast: str) -> str:
    return f"blast:{blast}"


def begin(job: Job, outreach: Outreach) -> None:
    """Its letter and its row, once; whoever was written to under a name has all that was said under it."""
    words = (outreach.subject, outreach.text, outreach.html)
    letter = dict(zip(LETTER, (letter_key(outreach.blast), *words, job.now), strict=True))
    row = dict(zip(BLAST, (job.id, outreach.blast, SENDING, job.now), strict=True))

    def write(connection: Any) -> None:
        missing, zeros = connection.dialect.insert_missing, dict.fromkeys((*FIGURES, *OUTCOMES), 0)
        connection.execute(missing("app_letters", ("letter_key",), LETTER), letter)
        said = connection.execute(letters.LOOK, {"letter_key": letter["letter_key"]}).first()
        if tuple(said) != words:
            raise Dead(f"the blast {outreach.blast} says something else already: give this one another name")
        connection.execute(missing("app_blasts", ("job_id",), (*BLAST, *zeros)), {**row, **zeros})

    job.write(write)


def write_down(job: Job, blast: str, addresses: Sequence[str], enqueue: Callable[[Any, set[str]], object]) -> None:
    """Those that nobody has written to under this name; `enqueue` is given them, and commits with them.

    So a row is there if and only if its mail is enqueued: whoever repeats this finds rows, and enqueues nothing.
    """
    if not addresses:
        return

    def write(connection: Any) -> None:
        # Anew for each try: after a COMMIT whose answer was lost, the rows of the first must not pass for ours.
        ours = token_hex(16)
        # In order, so that two jobs of one blast do not wait for each other crosswise.
        rows = [dict(zip(MAIL, (blast, address, job.id, ours), strict=True)) for address in sorted(addresses)]
        missing = connection.dialect.insert_missing("app_blast_mails", ("blast", "address"), MAIL)
        connection.execute_many(missing, rows)
        listed, values = among(addresses)
        asking = (
            "SELECT address FROM app_blast_mails WHERE blast = :blast AND written_by = :ours"
            f" AND address IN ({listed})"
        )
        enqueue(connection, set(connection.execute(asking, {**values, "blast": blast, "ours": ours}).scalars()))

    job.write(write)


def mails_of(job: Job) -> int:
    return int(job.read(lambda connection: connection.execute(MAILS_OF_JOB, {"job_id": job.id}).scalar()))


def written_under(job: Job, blasts: Sequence[str], addresses: Sequence[str]) -> set[str]:
    """Of the addresses, those that one of these blasts has gone to."""
    if not blasts or not addresses:
        return set()
    names, named = among(blasts, "blast")
    listed, values = among(addresses)
    asking = f"SELECT address FROM app_blast_mails WHERE blast IN ({names}) AND address IN ({listed})"
    return set(job.read(lambda connection: connection.execute(asking, {**named, **values}).scalars()))


def keep_figures(job: Job, figures: dict[str, int]) -> None:
    job.write(lambda connection: connection.execute(KEEP_FIGURES, {**figures, "job_id": job.id}))


def close(job: Job, job_id: int, *outcomes: int) -> None:
    """Once: what is tried again by hand later does not change what was told."""
    values = dict(zip(OUTCOMES, outcomes, strict=True))
    job.write(lambda connection: connection.execute(CLOSE, {**values, "job_id": job_id, "now": job.now}))
