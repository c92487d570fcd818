"""The way of one prospect: what Hunter knows, then what a scraper finds. Each is written down when it is known."""

from typing import Any

from handlers.prospects import hunter, scrapers
from handlers.prospects.answers import Known, keep, remembered
from handlers.prospects.tables import FIELDS, OF_THE_MAIL, Prospect, change, lock_living
from mayfly import Dead, Job

ENRICHED = "UPDATE app_prospects SET enriched_at = :now WHERE id = :id"


def enrich(job: Job, prospect_id: int) -> dict[str, Any]:
    before = _learn(job, prospect_id, {})
    prospect = _ask_hunter(job, before)
    pool = scrapers.read_scrapers()
    asked = scrapers.question_for(prospect)
    if pool and asked:
        answer = remembered(job, "scrapers", asked, lambda: scrapers.ask(job, asked, pool))
        prospect = _learn(job, prospect_id, answer)
    job.write(lambda connection: connection.execute(ENRICHED, {"id": prospect["id"], "now": job.now}))
    learned = [name for name in FIELDS if prospect[name] and not before[name]]
    return {"prospect": prospect["id"], "learned": learned, "email_status": prospect["email_status"]}


def _ask_hunter(job: Job, prospect: Prospect) -> Prospect:
    question = hunter.question_for(prospect)
    if question is None:
        return prospect
    answer = remembered(job, "hunter", question._asdict(), lambda: hunter.ask(job, question))
    if not prospect["email"] and "email" in answer:  # found, and judged with it: a second run need not ask for that
        judged = {name: answer[name] for name in ("email", *OF_THE_MAIL)}
        keep(job, "hunter", hunter.verifying(answer["email"])._asdict(), judged)
    return _learn(job, prospect["id"], answer)


def _learn(job: Job, prospect_id: int, answer: Known) -> Prospect:
    """Only what was not known; what people have written stays. The prospect as it is then."""

    def write(connection: Any) -> Prospect:
        prospect = lock_living(connection, prospect_id)
        if prospect is None:
            raise Dead(f"there is no prospect {prospect_id}")
        known = dict(prospect)
        prospect.update({name: answer[name] for name in FIELDS if name in answer and not prospect[name]})
        if answer.get("email", prospect["email"]) == prospect["email"]:
            prospect.update({name: answer[name] for name in OF_THE_MAIL if answer.get(name) is not None})
        if prospect != known:
            change(connection, [prospect], job.now)
        return prospect

    return job.write(write)
