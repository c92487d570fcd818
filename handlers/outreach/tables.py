"""The tables of blasts: one row per job with its totals, one row per recipient, stored lists."""

from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex

from sqlalchemy import Column, Connection, Integer, String, Table, func, select, update

from handlers.mail.tables import templates
from handlers.mail.templates import find_template
from handlers.outreach.payloads import Outreach
from handlers.payloads import DEFAULT_TENANT
from handlers.schema import Id, Json, UtcTimestamp, metadata
from handlers.upsert import insert_missing
from mayfly import Dead, Job

TEMPLATE_PREFIX = "blast:"  # of the keys of templates
FIGURES = ("mails", "suppressed", "written", "unfit", "sent", "failed", "cancelled")

blasts = Table(
    "app_blasts",
    metadata,
    Column("job_id", Id, primary_key=True, autoincrement=False),  # a blast may consist of several jobs
    Column("blast", String(60), nullable=False),
    Column("state", String(16), nullable=False),  # sending or sent
    *(Column(name, Integer, nullable=False) for name in FIGURES),
    Column("started_at", UtcTimestamp, nullable=False),
    Column("finished_at", UtcTimestamp),
)

blast_mails = Table(
    "app_blast_mails",
    metadata,
    Column("blast", String(60), primary_key=True),
    Column("address", String(190), primary_key=True),
    Column("job_id", Id, nullable=False),
    Column("written_by", String(32), nullable=False),  # the transaction that inserted the row and enqueued the email
)

recipients = Table(
    "app_recipients",
    metadata,
    Column("id", Id, primary_key=True),
    Column("list_key", String(190), nullable=False),
    Column("email", String(190), nullable=False),
    Column("name", String(190), nullable=False),
    Column("fields", Json),  # an object: further values for templates
)


def template_key(blast: str) -> str:
    return f"{TEMPLATE_PREFIX}{blast}"


def begin(job: Job, outreach: Outreach) -> None:
    """Store the template and the row of this job, once. All jobs of a blast send the same texts."""
    key, texts, now = template_key(outreach.blast), (outreach.subject, outreach.text, outreach.html), job.now
    named_texts = dict(zip(("subject", "text_body", "html_body"), texts, strict=True))
    template = {"tenant_id": DEFAULT_TENANT, "template_key": key, "created_at": now, **named_texts}
    row = {"job_id": job.id, "blast": outreach.blast, "state": "sending", "started_at": now}

    def write(connection: Connection) -> None:
        insert_missing(connection, templates, template)
        if tuple(connection.execute(find_template(DEFAULT_TENANT, key)).one()) != texts:
            raise Dead(f"the blast {outreach.blast} exists with another text: use another name")
        insert_missing(connection, blasts, {**row, **dict.fromkeys(FIGURES, 0)})

    job.write(write)


def record_recipients(
    job: Job, blast: str, addresses: Sequence[str], enqueue: Callable[[Connection, set[str]], object]
) -> None:
    """Insert one row per address that this blast has not emailed yet, and call `enqueue` with them.

    Both are one transaction, so a row exists if and only if its email is enqueued. A repeated step finds the rows and
    enqueues nothing.
    """
    if not addresses:
        return
    c = blast_mails.c

    def write(connection: Connection) -> None:
        # A new token per try: if the reply to a COMMIT was lost, the rows of the first try must not count as ours.
        token = token_hex(16)
        # Sorted, so that two jobs of one blast do not deadlock.
        common = {"blast": blast, "job_id": job.id, "written_by": token}
        insert_missing(connection, blast_mails, [{**common, "address": each} for each in sorted(addresses)])
        ours = select(c.address).where(c.blast == blast, c.written_by == token, c.address.in_(addresses))
        enqueue(connection, set(connection.scalars(ours)))

    job.write(write)


def count_mails(job: Job) -> int:
    query = select(func.count()).select_from(blast_mails).where(blast_mails.c.job_id == job.id)
    return job.read(lambda connection: int(connection.execute(query).scalar_one()))


def mailed_by(job: Job, blast_names: Sequence[str], addresses: Sequence[str]) -> set[str]:
    """Which of the addresses one of these blasts has emailed."""
    if not blast_names or not addresses:
        return set()
    c = blast_mails.c
    query = select(c.address).where(c.blast.in_(blast_names), c.address.in_(addresses))
    return job.read(lambda connection: set(connection.scalars(query)))


def store_figures(job: Job, figures: Mapping[str, int]) -> None:
    change = update(blasts).where(blasts.c.job_id == job.id).values(**figures)
    job.write(lambda connection: connection.execute(change))


def close(job: Job, job_id: int, counts: Mapping[str, int]) -> None:
    """Store the totals once: later manual retries do not change them."""
    is_sending = (blasts.c.job_id == job_id) & (blasts.c.state == "sending")
    change = update(blasts).where(is_sending).values(state="sent", finished_at=job.now, **counts)
    job.write(lambda connection: connection.execute(change))
