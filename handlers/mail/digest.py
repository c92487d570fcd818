"""Email each person the new posts on their boards since the last digest. Without news no email is sent."""

from datetime import datetime, timedelta
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Connection, select, update

from handlers.boards.tables import people
from handlers.mail.bulk import LANE, LOW_PRIORITY, UnsubscribeLinks
from handlers.mail.payloads import is_address
from handlers.mail.tables import add_missing_marks, count_news, digests, newest_news, people_with_news
from handlers.payloads import DEFAULT_TENANT
from handlers.suppressions import canonical, suppressed
from handlers.upsert import insert_missing
from mayfly import Cancel, Dead, Job, enqueue, enqueue_many

PAGE_SIZE = 500  # people
MAX_LISTED = 20  # posts in one email; the others are counted
EXCERPT_LENGTH = 200  # characters
FIRST_PERIOD = timedelta(days=7)  # covered by the first digest of a person
# A post may be committed later than its `published_at`; a more recent mark could skip it.
COMMIT_MARGIN = timedelta(minutes=1)


class NewsItem(NamedTuple):
    board: str
    author: str
    body: str


class DigestMark(NamedTuple):
    """The end of the period of a person's last digest, and the digest's number."""

    until_at: datetime
    number: int


def send_all(job: Job) -> dict[str, int]:
    """Enqueue one job per person with news, in slices. People with a suppressed address get none."""
    state = job.state or {"after": 0, "people": 0, "suppressed": 0}
    while page := _page(job, state["after"]):
        found = _with_news(job, state["after"], page[-1])
        reached = _not_suppressed(job, found)
        enqueue_many(
            {"type": "send_digest", "payload": {"person": each}, "unique_key": f"digest:{each}"} for each in reached
        )
        skipped = state["suppressed"] + len(found) - len(reached)
        state = {"after": page[-1], "people": state["people"] + len(reached), "suppressed": skipped}
        job.checkpoint(state)  # committed together with the jobs
    return {"people": state["people"], "suppressed": state["suppressed"]}


def send_one(job: Job, person_id: int) -> dict[str, int]:
    name, email = _person(job, person_id)
    for address, reason in suppressed(job, DEFAULT_TENANT, [canonical(email)]).items():
        raise Cancel(f"{address} is suppressed: {reason}")
    link = UnsubscribeLinks().link_for(email)
    mark = _load_mark(job, person_id)
    until_at = job.now - COMMIT_MARGIN
    count, news = job.read(lambda connection: _news(connection, person_id, mark.until_at, until_at))
    if count == 0:
        return {"posts": 0}
    own = {"to": email, "key": f"digest:{person_id}:{mark.number + 1}", "unsubscribe": link}
    mail = {**own, **compose(name, count, news, link)}
    is_ours = job.write(lambda connection: _send(connection, person_id, mark.number, until_at, mail))
    return {"posts": count if is_ours else 0}  # 0: another run has just sent it


def _person(job: Job, person_id: int) -> tuple[str, str]:
    query = select(people.c.name, people.c.email).where(people.c.id == person_id)
    found = job.read(lambda connection: connection.execute(query).first())
    if found is None:
        raise Cancel(f"there is no person {person_id}")
    name, email = found
    if not is_address(email):
        raise Dead(f"person {person_id} has no valid email address")
    return name, email


def _page(job: Job, after: int) -> list[int]:
    query = select(people.c.id).where(people.c.id > after).order_by(people.c.id).limit(PAGE_SIZE)
    return job.read(lambda connection: list(connection.scalars(query)))


def _with_news(job: Job, after: int, last: int) -> list[int]:
    now = job.now
    job.write(lambda connection: connection.execute(add_missing_marks(after, last, now - FIRST_PERIOD)))
    query = people_with_news(after, last, now - COMMIT_MARGIN)
    return job.read(lambda connection: list(connection.scalars(query)))


def _not_suppressed(job: Job, ids: list[int]) -> list[int]:
    if not ids:
        return []
    query = select(people.c.id, people.c.email).where(people.c.id.in_(ids)).order_by(people.c.id)
    addresses = job.read(lambda connection: {row.id: canonical(row.email) for row in connection.execute(query)})
    stopped = suppressed(job, DEFAULT_TENANT, list(addresses.values()))
    return [each for each, address in addresses.items() if address not in stopped]


def _load_mark(job: Job, person_id: int) -> DigestMark:
    first = {"person_id": person_id, "until_at": job.now - FIRST_PERIOD, "number": 0}
    query = select(digests.c.until_at, digests.c.number).where(digests.c.person_id == person_id)

    def load(connection: Connection) -> DigestMark | None:
        row = connection.execute(query).first()
        return None if row is None else DigestMark._make(row)

    def create(connection: Connection) -> DigestMark:
        insert_missing(connection, digests, first)
        return DigestMark._make(connection.execute(query).one())

    return job.read(load) or job.write(create)


def _news(
    connection: Connection, person_id: int, since_at: datetime, until_at: datetime
) -> tuple[int, list[NewsItem]]:
    """The number of new posts, and the newest of them by board."""
    count = int(connection.execute(count_news(person_id, since_at, until_at)).scalar_one())
    newest = newest_news(person_id, since_at, until_at, MAX_LISTED)
    return count, [NewsItem._make(row) for row in connection.execute(newest)] if count else []


def _send(connection: Connection, person_id: int, number: int, until_at: datetime, mail: dict[str, Any]) -> bool:
    """Move the mark and enqueue the email in one transaction. Of two runs with the same number only one does."""
    is_unmoved = (digests.c.person_id == person_id) & (digests.c.number == number)
    move = update(digests).where(is_unmoved).values(until_at=until_at, number=number + 1)
    if connection.execute(move).rowcount == 0:
        return False
    enqueue(
        "send_email", mail, lane=LANE, priority=LOW_PRIORITY, unique_key=mail["key"], connection=connection
    )  # fmt: skip
    return True


# --- the email --------------------------------------------------------------------------------------------


def compose(name: str, count: int, news: list[NewsItem], unsubscribe: str) -> dict[str, str]:
    """Return text and HTML. Neither is a template, and the HTML escapes all user input."""
    heading = f"{count:,} new {'post' if count == 1 else 'posts'} on your boards"
    earlier = count - len(news)
    more = f"And {earlier:,} earlier {'post' if earlier == 1 else 'posts'}." if earlier else ""
    boards = [(title, list(found)) for title, found in groupby(news, key=lambda each: each.board)]
    text = "\n\n".join(
        [f"Dear {name},", heading + ":"]
        + [f"{title}\n" + "\n".join(f"- {_excerpt(each)}" for each in found) for title, found in boards]
        + ([more] if more else [])
        + [f"Unsubscribe: {unsubscribe}"]
    )
    html = "".join(
        [f"<p>Dear {escape(name)},</p><p>{heading}:</p>"]
        + [
            f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{escape(_excerpt(each))}</li>' for each in found)}</ul>"
            for title, found in boards
        ]
        + ([f"<p>{more}</p>"] if more else [])
        + [f'<p><a href="{escape(unsubscribe)}">Unsubscribe</a></p>']
    )
    return {"subject": heading, "text": f"{text}\n", "html": html}


def _excerpt(news: NewsItem) -> str:
    body = " ".join(news.body.split())
    short = body if len(body) <= EXCERPT_LENGTH else f"{body[: EXCERPT_LENGTH - 1]}…"
    return f"{news.author}: {short}"
