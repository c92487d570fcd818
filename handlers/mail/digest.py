"""What happened on somebody's boards since the last digest, as one mail; nothing new is no mail."""

from datetime import datetime, timedelta
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from handlers.mail import tables
from handlers.mail.payloads import is_address
from mayfly import Cancel, Dead, Job, enqueue, enqueue_many, utc_from_driver

PAGE = 500  # people
LISTED = 20  # posts in one mail; the others are counted
EXCERPT = 200  # characters
FIRST = timedelta(days=7)  # how far the first digest looks back: nobody wants a year in a mail
# What is published in a transaction is seen when that commits: it could be older than a mark that was set before.
SETTLED = timedelta(minutes=1)


class News(NamedTuple):
    board: str
    author: str
    body: str


def send_all(job: Job) -> dict[str, int]:
    """Let each person with news become a job, in slices: quiet people cost a look, not a job."""
    state = job.state or {"after": 0, "people": 0}
    while page := _page(job, state["after"]):
        people = _with_news(job, state["after"], page[-1])
        enqueue_many(
            {"type": "send_digest", "payload": {"person": each}, "unique_key": f"digest:{each}"} for each in people
        )
        state = {"after": page[-1], "people": state["people"] + len(people)}
        job.checkpoint(state)  # their jobs are enqueued with it, or neither is
    return {"people": state["people"]}


def send_one(job: Job, person_id: int) -> dict[str, int]:
    person = job.read(lambda connection: connection.execute(tables.PERSON, {"id": person_id}).first())
    if person is None:
        raise Cancel(f"there is no person {person_id}")
    name, email = person
    if not is_address(email):
        raise Dead(f"person {person_id} has no address that mail could be sent to")
    since_at, number = _mark(job, person_id)
    asked = {"person_id": person_id, "since_at": since_at, "until_at": job.now - SETTLED, "most": LISTED}
    count, news = job.read(lambda connection: _news(connection, asked))
    if count == 0:
        return {"posts": 0}
    mail = {"to": email, "key": f"digest:{person_id}:{number + 1}", **compose(name, count, news)}
    mark = {"person_id": person_id, "until_at": asked["until_at"], "number": number}
    is_ours = job.write(lambda connection: _send(connection, mark, mail))
    return {"posts": count if is_ours else 0}  # otherwise another run for the same person has just sent it


def _page(job: Job, after: int) -> list[int]:
    asked = {"after": after, "most": PAGE}
    return list(job.read(lambda connection: connection.execute(tables.PEOPLE, asked).scalars()))


def _with_news(job: Job, after: int, last: int) -> list[int]:
    pages = {"after": after, "last": last}
    first = {**pages, "until_at": job.now - FIRST}
    job.write(lambda connection: connection.execute(tables.MARK_ALL, first))
    asked = {**pages, "until_at": job.now - SETTLED}
    return list(job.read(lambda connection: connection.execute(tables.WITH_NEWS, asked).scalars()))


def _mark(job: Job, person_id: int) -> tuple[datetime, int]:
    """Until when the last digest went, and its number."""
    first = {"person_id": person_id, "until_at": job.now - FIRST, "number": 0}

    def look(connection: Any) -> Any:
        return connection.execute(tables.MARK, first).first()

    def begin(connection: Any) -> Any:
        missing = connection.dialect.insert_missing("app_digests", ("person_id",), tables.MARK_COLUMNS)
        connection.execute(missing, first)
        return look(connection)

    until_at, number = job.read(look) or job.write(begin)
    return utc_from_driver(until_at), number


def _news(connection: Any, asked: dict[str, Any]) -> tuple[int, list[News]]:
    """How many there are, and the newest of them by board."""
    count = connection.execute(tables.COUNT_NEWS, asked).scalar()
    return count, [News(*each) for each in connection.execute(tables.NEWS, asked).all()] if count else []


def _send(connection: Any, mark: dict[str, Any], mail: dict[str, Any]) -> bool:
    """The mark and the mail commit together; whether it was ours to move."""
    if connection.execute(tables.MOVE_MARK, mark).rowcount == 0:
        return False
    enqueue("send_email", mail, unique_key=mail["key"], connection=connection)
    return True


# --- the mail itself --------------------------------------------------------------------------------------


def compose(name: str, count: int, news: list[News]) -> dict[str, str]:
    """Both ways. Neither is a template, and all that people have typed is escaped in the html."""
    heading = f"{count:,} new {'post' if count == 1 else 'posts'} on your boards"
    more = f"And {count - len(news):,} earlier ones." if count > len(news) else ""
    boards = [(title, list(found)) for title, found in groupby(news, key=lambda each: each.board)]
    text = "\n\n".join(
        [f"Dear {name},", heading + ":"]
        + [f"{title}\n" + "\n".join(f"- {_told(each)}" for each in found) for title, found in boards]
        + ([more] if more else [])
    )
    html = "".join(
        [f"<p>Dear {escape(name)},</p><p>{heading}:</p>"]
        + [
            f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{escape(_told(each))}</li>' for each in found)}</ul>"
            for title, found in boards
        ]
        + ([f"<p>{more}</p>"] if more else [])
    )
    return {"subject": heading, "text": f"{text}\n", "html": html}


def _told(news: News) -> str:
    body = " ".join(news.body.split())
    short = body if len(body) <= EXCERPT else f"{body[: EXCERPT - 1]}…"
    return f"{news.author}: {short}"
