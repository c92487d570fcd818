"""The pool of in-house scrapers: each is asked in its turn, and one that fails is left alone for a while."""

from datetime import timedelta
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlsplit

from handlers.outside import Outside
from handlers.prospects.answers import Known, picked
from handlers.prospects.tables import Prospect
from handlers.rests import rest, resting
from mayfly import Dead, Job, Retry, Snooze, setting

ASKED = ("name", "company", "email")  # and nothing that they answer: the same question must stay the same
ANSWERED = {name: name for name in ("title", "phone", "linkedin", "website", "city", "country")}
REST = timedelta(minutes=10)
CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 8.0
MOST_TRIED = 2  # in one run: the time of a job is bounded, and who failed is at rest when it is tried again


class Scraper(NamedTuple):
    name: str
    url: str


def read_scrapers() -> list[Scraper]:
    """SCRAPERS: their URLs, separated by white space. They are named without what may be secret in them."""
    urls = setting("SCRAPERS", "").split()
    return [Scraper(f"scraper:{urlsplit(url).hostname}:{sha256(url.encode()).hexdigest()[:8]}", url) for url in urls]


def question_for(prospect: Prospect) -> dict[str, str]:
    return {name: prospect[name] for name in ASKED if prospect[name]}


def ask(job: Job, question: dict[str, str], scrapers: list[Scraper]) -> Known:
    """Of the first that answers; nobody found is an answer, too."""
    at_rest = resting(job)
    start = job.id % len(scrapers)
    in_turn = [each for each in (*scrapers[start:], *scrapers[:start]) if each.name not in at_rest]
    if not in_turn:
        raise Snooze(until=min(at_rest[each.name] for each in scrapers))
    said = []
    for scraper in in_turn[:MOST_TRIED]:
        outside = Outside(scraper.url, connect_seconds=CONNECT_SECONDS, answer_seconds=ANSWER_SECONDS)
        try:
            return _profile(outside, question)
        except (Retry, Dead, Snooze) as error:
            said.append(f"{outside.who} has had too much" if isinstance(error, Snooze) else str(error))
            rest(job, scraper.name, said[-1], _wait(error))
    raise Retry(f"no scraper has answered: {'; '.join(said)}")


def _wait(error: Retry | Dead | Snooze) -> timedelta:
    after = None if isinstance(error, Dead) else error.after
    return REST if after is None else timedelta(seconds=after)


def _profile(outside: Outside, question: dict[str, str]) -> Known:
    told = outside.post("", question).json()
    profile = told.get("profile", "") if isinstance(told, dict) else ""
    if not isinstance(profile, dict | None):
        raise Retry(f"{outside.who} answered with something that is no profile")
    return picked(profile or {}, ANSWERED)
