"""Enrich one prospect with data from Hunter, then from a scraper. Each response is stored when it arrives."""

from typing import Any

from sqlalchemy import Connection, update

from handlers.prospects import hunter, scrapers
from handlers.prospects.answer_cache import Known, cached, store_answer
from handlers.prospects.tables import EMAIL_FIELDS, FIELDS, Prospect, lock_surviving, prospects, store
from mayfly import Dead, Job


def enrich(job: Job, prospect_id: int) -> dict[str, Any]:
    before = _add_known(job, prospect_id, {})
    prospect = _ask_hunter(job, before)
    pool = scrapers.read_scrapers()
    question = scrapers.question_for(prospect)
    if pool and question:
        answer = cached(job, "scrapers", question, lambda: scrapers.ask(job, question, pool))
        prospect = _add_known(job, prospect_id, answer)
    done = update(prospects).where(prospects.c.id == prospect["id"]).values(enriched_at=job.now)
    job.write(lambda connection: connection.execute(done))
    learned = [name for name in FIELDS if prospect[name] and not before[name]]
    return {"prospect": prospect["id"], "learned": learned, "email_status": prospect["email_status"]}


def _ask_hunter(job: Job, prospect: Prospect) -> Prospect:
    question = hunter.question_for(prospect)
    if question is None:
        return prospect
    answer = cached(job, "hunter", question._asdict(), lambda: hunter.ask(job, question))
    if not prospect["email"] and "email" in answer:  # the finder verifies too: a second run needs no verification
        verified = {name: answer[name] for name in ("email", *EMAIL_FIELDS)}
        store_answer(job, "hunter", hunter.verification_of(answer["email"])._asdict(), verified)
    return _add_known(job, prospect["id"], answer)


def _add_known(job: Job, prospect_id: int, answer: Known) -> Prospect:
    """Fill empty fields only; returns the prospect as stored."""

    def write(connection: Connection) -> Prospect:
        prospect = lock_surviving(connection, prospect_id)
        if prospect is None:
            raise Dead(f"there is no prospect {prospect_id}")
        before = dict(prospect)
        prospect.update({name: answer[name] for name in FIELDS if name in answer and not prospect[name]})
        if answer.get("email", prospect["email"]) == prospect["email"]:
            prospect.update({name: answer[name] for name in EMAIL_FIELDS if answer.get(name) is not None})
        if prospect != before:
            store(connection, [prospect], job.now)
        return prospect

    return job.write(write)
