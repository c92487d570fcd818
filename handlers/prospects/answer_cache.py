"""Cache the responses of providers, so that each request is paid for once."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import select

from handlers.prospects.tables import MAX_LENGTHS, cached_answers
from handlers.upsert import upsert
from mayfly import Dead, Job, setting

USUAL_DAYS = "30"

Known = dict[str, Any]


def cached(job: Job, provider: str, question: Mapping[str, Any], ask: Callable[[], Known]) -> Known:
    """Return the cached response, or call `ask` and store its response before it is used."""
    c = cached_answers.c
    query = select(c.answer).where(
        c.provider == provider, c.question_key == _key(question), c.answered_at > job.now - _max_age()
    )
    kept = job.read(lambda connection: connection.scalar(query))
    if kept is not None:
        found: Known = json.loads(kept)
        return found
    answer = ask()
    store_answer(job, provider, question, answer)
    return answer


def store_answer(job: Job, provider: str, question: Mapping[str, Any], answer: Known) -> None:
    row = {
        "provider": provider, "question_key": _key(question), "question": _text(question),
        "answer": json.dumps(answer), "answered_at": job.now,
    }  # fmt: skip
    job.write(lambda connection: upsert(connection, cached_answers, row))


def picked(given: Mapping[str, Any], names: Mapping[str, str]) -> Known:
    """The texts of a response that fit into our fields; `names` maps the provider's names to ours."""
    known = {}
    for theirs, ours in names.items():
        value = given.get(theirs)
        text = " ".join(value.split()) if isinstance(value, str) else ""
        if text and text.isprintable() and len(text) <= MAX_LENGTHS[ours]:
            known[ours] = text
    return known


def _key(question: Mapping[str, Any]) -> str:
    return sha256(_text(question).encode()).hexdigest()


def _text(question: Mapping[str, Any]) -> str:
    return json.dumps(question, sort_keys=True)


def _max_age() -> timedelta:
    days = setting("ENRICH_CACHE_DAYS", USUAL_DAYS)
    if not (days.isascii() and days.isdigit() and len(days) <= 4):
        raise Dead("ENRICH_CACHE_DAYS must be a number of days")
    return timedelta(days=int(days))
