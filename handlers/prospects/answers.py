"""What others have answered, kept for a while: a question that was paid for once is not asked again."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from handlers.prospects.tables import LENGTHS
from mayfly import Dead, Job, setting

COLUMNS = ("provider", "question_key", "question", "answer", "answered_at")
LOOK = (
    "SELECT answer FROM app_answers"
    " WHERE provider = :provider AND question_key = :question_key AND answered_at > :since"
)
USUAL_DAYS = "30"

Known = dict[str, Any]


def remembered(job: Job, provider: str, question: Mapping[str, Any], ask: Callable[[], Known]) -> Known:
    """Asked for only if nobody has answered lately. What comes back is kept before anything is done with it."""
    values = {**_key(provider, question), "since": job.now - _age()}
    kept = job.read(lambda connection: connection.execute(LOOK, values).scalar())
    if kept is not None:
        found: Known = json.loads(kept)
        return found
    answer = ask()
    keep(job, provider, question, answer)
    return answer


def keep(job: Job, provider: str, question: Mapping[str, Any], answer: Known) -> None:
    row = {
        **_key(provider, question),
        "question": _text(question),
        "answer": json.dumps(answer),
        "answered_at": job.now,
    }

    def write(connection: Any) -> None:
        connection.execute(connection.dialect.upsert("app_answers", COLUMNS[:2], COLUMNS), row)

    job.write(write)


def picked(given: Mapping[str, Any], names: Mapping[str, str]) -> Known:
    """Of what was answered, the texts that we have a field for and that fit into it: theirs by name, and ours."""
    known = {}
    for theirs, ours in names.items():
        value = given.get(theirs)
        text = " ".join(value.split()) if isinstance(value, str) else ""
        if text and text.isprintable() and len(text) <= LENGTHS[ours]:
            known[ours] = text
    return known


def _key(provider: str, question: Mapping[str, Any]) -> dict[str, Any]:
    return {"provider": provider, "question_key": sha256(_text(question).encode()).hexdigest()}


def _text(question: Mapping[str, Any]) -> str:
    return json.dumps(question, sort_keys=True)


def _age() -> timedelta:
    told = setting("ENRICH_CACHE_DAYS", USUAL_DAYS)
    if not (told.isascii() and told.isdigit() and len(told) <= 4):
        raise Dead("ENRICH_CACHE_DAYS must be a whole number of days")
    return timedelta(days=int(told))
