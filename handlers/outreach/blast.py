"""The way of a blast: step by step through its audience, whose mails are committed with who was written to."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from handlers.mail.letters import saying
from handlers.mail.message import compose
from handlers.mail.payloads import ADDRESS, Mail
from handlers.outreach import audiences, tables
from handlers.outreach.audiences import Addressee
from handlers.outreach.leaving import WayOut
from handlers.outreach.payloads import Outreach
from handlers.suppressions import canonical, suppressed
from mayfly import Job, batch, enqueue_many

STEP = 500  # recipients: a fraction of a second
LOW = 2  # so that a second blast begins while the mails of the first are still on their way
LONGEST = 190  # characters of an address, as its column

Mails = Callable[[Iterable[Addressee]], Iterator[dict[str, Any]]]


@dataclass(frozen=True)
class State:
    """How far a blast is, as its checkpoints say."""

    after: int = 0  # the place of who was last looked at
    looked_at: int = 0
    suppressed: int = 0
    unfit: int = 0  # what is no address


def fan_out(job: Job, outreach: Outreach, lane: str) -> dict[str, int]:
    way_out = WayOut()
    _try_out(outreach, way_out)
    tables.begin(job, outreach)
    state = State(**(job.state or {}))
    total = job.read(lambda connection: audiences.count(connection, outreach.to))
    name = f"blast:{outreach.blast}:{job.id}"
    while found := _next_page(job, outreach, state.after):
        state = _take_step(job, outreach, state, found, partial(_mails, outreach, way_out, lane, name))
        job.progress(state.looked_at, total, "recipients")
        job.checkpoint(asdict(state))
    figures = _figures(state, tables.mails_of(job))
    tables.keep_figures(job, figures)
    # What all steps have enqueued is this batch: its jobs are those of the group, since when does not matter.
    with batch(name, on_complete=("close_blast", {"job": job.id})):
        return figures


def _figures(state: State, mails: int) -> dict[str, int]:
    """Who is neither is in the audience twice, or was written to under this name or one that is left out."""
    written = max(state.looked_at - state.suppressed - state.unfit - mails, 0)
    return {"mails": mails, "suppressed": state.suppressed, "written": written, "unfit": state.unfit}


def _next_page(job: Job, outreach: Outreach, after: int) -> list[Addressee]:
    return job.read(lambda connection: audiences.page(connection, outreach.to, after, STEP))


def _try_out(outreach: Outreach, way_out: WayOut) -> None:
    """A template that cannot be rendered ends the blast, before it has become as many dead mails as recipients."""
    someone = Addressee(1, "ann@example.com", "Ann")
    mail = Mail.model_validate(_payload(outreach, someone, way_out))
    compose(saying(mail, outreach.subject, outreach.text, outreach.html), someone.email, "")


def _take_step(job: Job, outreach: Outreach, state: State, found: list[Addressee], mails: Mails) -> State:
    fit = _by_address(found)
    stopped = suppressed(job, list(fit))
    elsewhere = tables.written_under(job, outreach.without, list(fit))
    wanted = [address for address in fit if address not in stopped and address not in elsewhere]

    def enqueue_new(connection: Any, new: set[str]) -> int:
        return enqueue_many(mails(fit[address] for address in wanted if address in new), connection=connection)

    tables.write_down(job, outreach.blast, wanted, enqueue_new)
    return State(
        after=found[-1].place,
        looked_at=state.looked_at + len(found),
        suppressed=state.suppressed + len(stopped),
        unfit=state.unfit + sum(not _is_address(each.email) for each in found),
    )


def _by_address(found: Iterable[Addressee]) -> dict[str, Addressee]:
    """Each once, as it was spelled first."""
    fit: dict[str, Addressee] = {}
    for each in found:
        if _is_address(each.email):
            fit.setdefault(canonical(each.email), each)
    return fit


def _is_address(text: str) -> bool:
    return len(text) <= LONGEST and re.fullmatch(ADDRESS, text.strip()) is not None


def _mails(
    outreach: Outreach, way_out: WayOut, lane: str, group_key: str, addressees: Iterable[Addressee]
) -> Iterator[dict[str, Any]]:
    same = {"type": "send_email", "lane": lane, "priority": LOW, "group_key": group_key}
    for each in addressees:
        yield {**same, "payload": _payload(outreach, each, way_out)}


def _payload(outreach: Outreach, addressee: Addressee, way_out: WayOut) -> dict[str, Any]:
    """The letter by its key: fifty thousand copies of it would fill the table of jobs."""
    email = addressee.email.strip()
    who = sha256(canonical(email).encode()).hexdigest()[:32]
    payload = {
        "to": email,
        "letter": tables.letter_key(outreach.blast),
        "context": {"name": addressee.name},
        "unsubscribe": way_out.link_for(email),
        "key": f"blast:{outreach.blast}:{who}",
    }
    return payload if outreach.reply_to is None else {**payload, "reply_to": outreach.reply_to}
