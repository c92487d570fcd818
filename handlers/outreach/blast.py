"""Send a blast: walk through its audience in steps. Each step commits its emails and recipients together."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection

from handlers.mail.bulk import LOW_PRIORITY, UnsubscribeLinks
from handlers.mail.message import compose, variables_of
from handlers.mail.payloads import ADDRESS, Mail
from handlers.mail.templates import with_texts
from handlers.outreach import audiences, tables
from handlers.outreach.audiences import Recipient
from handlers.outreach.payloads import Outreach
from handlers.payloads import DEFAULT_TENANT
from handlers.suppressions import canonical, suppressed
from mayfly import Job, batch, enqueue_many

STEP_SIZE = 500  # recipients; takes a fraction of a second
MAX_ADDRESS_LENGTH = 190  # as its column

Mails = Callable[[Iterable[Recipient]], Iterator[dict[str, Any]]]


@dataclass(frozen=True)
class BlastProgress:
    """The checkpoint."""

    after: int = 0  # position of the last recipient
    read: int = 0
    suppressed: int = 0
    unfit: int = 0  # invalid addresses


def fan_out(job: Job, outreach: Outreach, lane: str) -> dict[str, int]:
    links = UnsubscribeLinks()
    payloads = _BlastPayloads(outreach, links)
    _check_templates(outreach, payloads, job.read(lambda connection: audiences.sample(connection, outreach.to)))
    tables.begin(job, outreach)
    state = BlastProgress(**(job.state or {}))
    total = job.read(lambda connection: audiences.count(connection, outreach.to))
    name = f"blast:{outreach.blast}:{job.id}"
    while found := _next_page(job, outreach, state.after):
        state = _take_step(job, outreach, state, found, partial(_mails, payloads, lane, name))
        job.progress(state.read, total, "recipients")
        job.checkpoint(asdict(state))
    figures = _figures(state, tables.count_mails(job))
    tables.store_figures(job, figures)
    # The batch consists of the jobs with this group key, enqueued by all steps.
    with batch(name, on_complete=("close_blast", {"job": job.id})):
        return figures


def _figures(state: BlastProgress, mails: int) -> dict[str, int]:
    """`written`: twice in the audience, or already emailed by this blast or an excluded one."""
    written = max(state.read - state.suppressed - state.unfit - mails, 0)
    return {"mails": mails, "suppressed": state.suppressed, "written": written, "unfit": state.unfit}


def _next_page(job: Job, outreach: Outreach, after: int) -> list[Recipient]:
    return job.read(lambda connection: audiences.page(connection, outreach.to, after, STEP_SIZE))


def _check_templates(outreach: Outreach, payloads: "_BlastPayloads", sample: Recipient) -> None:
    """Render the templates once: an error fails the blast instead of every single email."""
    mail = Mail.model_validate(payloads.payload_for(sample))
    compose(with_texts(mail, outreach.subject, outreach.text, outreach.html), sample.email, "")


def _take_step(
    job: Job, outreach: Outreach, state: BlastProgress, found: list[Recipient], mails: Mails
) -> BlastProgress:
    valid = _by_address(found)
    stopped = suppressed(job, DEFAULT_TENANT, list(valid))
    excluded = tables.mailed_by(job, outreach.without, list(valid))
    wanted = [address for address in valid if address not in stopped and address not in excluded]

    def enqueue_new(connection: Connection, new: set[str]) -> int:
        return enqueue_many(mails(valid[address] for address in wanted if address in new), connection=connection)

    tables.record_recipients(job, outreach.blast, wanted, enqueue_new)
    return BlastProgress(
        after=found[-1].position,
        read=state.read + len(found),
        suppressed=state.suppressed + len(stopped),
        unfit=state.unfit + sum(not _is_address(each.email) for each in found),
    )


def _by_address(found: Iterable[Recipient]) -> dict[str, Recipient]:
    """Return each canonical address once, in its first spelling."""
    valid: dict[str, Recipient] = {}
    for each in found:
        if _is_address(each.email):
            valid.setdefault(canonical(each.email), each)
    return valid


def _is_address(text: str) -> bool:
    return len(text) <= MAX_ADDRESS_LENGTH and re.fullmatch(ADDRESS, text.strip()) is not None


def _mails(
    payloads: "_BlastPayloads", lane: str, group_key: str, recipients: Iterable[Recipient]
) -> Iterator[dict[str, Any]]:
    same = {"type": "send_email", "lane": lane, "priority": LOW_PRIORITY, "group_key": group_key}
    for each in recipients:
        yield {**same, "payload": payloads.payload_for(each)}


class _BlastPayloads:
    """The emails of one blast. They have only what the templates use, so that the jobs table stays small."""

    def __init__(self, outreach: Outreach, links: UnsubscribeLinks) -> None:
        self._outreach, self._links = outreach, links
        self._used = variables_of(outreach.subject, outreach.text, outreach.html)

    def payload_for(self, recipient: Recipient) -> dict[str, Any]:
        """Refers to the template by its key."""
        outreach, email = self._outreach, recipient.email.strip()
        digest = sha256(canonical(email).encode()).hexdigest()[:32]
        fields = {name: value for name, value in recipient.fields.items() if name in self._used}
        payload = {
            "to": email,
            "template": tables.template_key(outreach.blast),
            "context": {**fields, "name": recipient.name},
            "unsubscribe": self._links.link_for(email),
            "key": f"blast:{outreach.blast}:{digest}",
        }
        return payload if outreach.reply_to is None else {**payload, "reply_to": outreach.reply_to}
