"""The pool of in-house scrapers: jobs rotate through them, and a scraper that fails gets a cooldown."""

from datetime import timedelta
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import urlsplit

from handlers.cooldown import active_cooldowns, start_cooldown
from handlers.http import HttpClient
from handlers.prospects.answer_cache import Known, picked
from handlers.prospects.tables import Prospect
from mayfly import Dead, Job, Retry, Snooze, setting

ASKED = ("name", "company", "email")  # none of the response's fields: the same request must have the same cache key
ANSWERED = {name: name for name in ("title", "phone", "linkedin", "website", "city", "country")}
COOLDOWN = timedelta(minutes=10)
CONNECT_SECONDS, RESPONSE_SECONDS = 3.0, 8.0
MAX_TRIED = 2  # per run, because the time of a job is limited


class Scraper(NamedTuple):
    name: str
    url: str


def read_scrapers() -> list[Scraper]:
    """Read SCRAPERS: URLs, separated by whitespace. Names contain no part of the URL that may be secret."""
    urls = setting("SCRAPERS", "").split()
    return [Scraper(f"scraper:{urlsplit(url).hostname}:{sha256(url.encode()).hexdigest()[:8]}", url) for url in urls]


def question_for(prospect: Prospect) -> dict[str, str]:
    return {name: prospect[name] for name in ASKED if prospect[name]}


def ask(job: Job, question: dict[str, str], scrapers: list[Scraper]) -> Known:
    """Return the response of the first scraper that responds; "not found" is a response too."""
    cooldowns = active_cooldowns(job)
    start = job.id % len(scrapers)
    in_turn = [each for each in (*scrapers[start:], *scrapers[:start]) if each.name not in cooldowns]
    if not in_turn:
        raise Snooze(until=min(cooldowns[each.name] for each in scrapers), reason="all scrapers have a cooldown")
    errors = []
    for scraper in in_turn[:MAX_TRIED]:
        client = HttpClient(scraper.url, connect_seconds=CONNECT_SECONDS, response_seconds=RESPONSE_SECONDS)
        try:
            return _profile(client, question)
        except (Retry, Dead, Snooze) as error:
            errors.append(f"{client.host} is rate-limited" if isinstance(error, Snooze) else str(error))
            start_cooldown(job, scraper.name, errors[-1], _cooldown(error))
    raise Retry(f"no scraper responded: {'; '.join(errors)}")


def _cooldown(error: Retry | Dead | Snooze) -> timedelta:
    after = None if isinstance(error, Dead) else error.after
    return COOLDOWN if after is None else timedelta(seconds=after)


def _profile(client: HttpClient, question: dict[str, str]) -> Known:
    answer = client.post("", question).json()
    profile = answer.get("profile", "") if isinstance(answer, dict) else ""
    if not isinstance(profile, dict | None):
        raise Retry(f"{client.host} returned no profile")
    return picked(profile or {}, ANSWERED)
