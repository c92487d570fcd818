"""Hunter: finds the address of a person, and says of an address whether it works. Their API, version 2."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from handlers.outside import Answer, Outside
from handlers.outside.meaning import wait_seconds
from handlers.prospects.answers import Known, picked
from handlers.prospects.keys import is_mail
from handlers.prospects.quota import KEY
from handlers.prospects.tables import Prospect
from handlers.rests import rest, resting
from mayfly import Dead, Job, Retry, Snooze, setting

ANSWER_SECONDS = 15.0
URL = "https://api.hunter.io"
PENDING = 202  # an address is still being verified
TOO_FAST, USED_UP, NOT_TO_BE_ASKED = 403, 429, 451  # as their documentation has it
A_MINUTE, A_DAY = timedelta(minutes=1), timedelta(days=1)
FOUND = {"position": "title", "company": "company", "phone_number": "phone", "linkedin_url": "linkedin"}
STATUS_LENGTH = 32


class Question(NamedTuple):
    path: str
    asked: dict[str, str]


def question_for(prospect: Prospect) -> Question | None:
    """None where too little is known to ask for anything."""
    if prospect["email"]:
        return verifying(prospect["email"])
    if not prospect["name"]:
        return None
    domain = _domain(prospect["website"] or "")
    where = {"domain": domain} if domain else {"company": prospect["company"]}
    if not any(where.values()):
        return None
    return Question("/v2/email-finder", {**where, "full_name": prospect["name"]})


def _domain(website: str) -> str:
    try:
        return urlsplit(website if "//" in website else f"//{website}").hostname or ""
    except ValueError:  # half an IPv6 address, for one
        return ""


def verifying(mail: str) -> Question:
    return Question("/v2/email-verifier", {"email": mail})


def ask(job: Job, question: Question) -> Known:
    at_rest = resting(job).get(KEY)
    if at_rest is not None:
        raise Snooze(until=at_rest)
    job.take(KEY, or_snooze=True)
    secret = setting("HUNTER_API_KEY")
    headers = {"X-API-KEY": secret}
    hunter = Outside(setting("HUNTER_URL", URL), headers=headers, answer_seconds=ANSWER_SECONDS)
    try:
        answer = hunter.get(
            f"{question.path}?{urlencode(question.asked)}", expected=(TOO_FAST, USED_UP, NOT_TO_BE_ASKED)
        )
        return _read(job, question, answer)
    except Retry as error:  # one who repeats what he was sent must not put the key into the job's error
        raise Retry(str(error).replace(secret, "***"), after=error.after) from None
    except Dead as error:
        raise Dead(str(error).replace(secret, "***")) from None


def _read(job: Job, question: Question, answer: Answer) -> Known:
    if answer.status == NOT_TO_BE_ASKED:
        return {"email_status": "not to be asked"}
    if answer.status == USED_UP:
        wait = wait_seconds(answer.headers.get("Retry-After"), job.now)
        raise Snooze(until=_let_rest(job, A_DAY if wait is None else timedelta(seconds=wait), "its quota is used up"))
    if answer.status == TOO_FAST:
        _let_rest(job, A_MINUTE, "asked too often")
        raise Retry(f"{answer.who} answered {TOO_FAST}: asked too often", after=A_MINUTE)
    if answer.status == PENDING:
        raise Retry(f"{answer.who} is still verifying the address", after=A_MINUTE)
    told = answer.json()
    given = told.get("data") if isinstance(told, dict) else None
    if not isinstance(given, dict):
        raise Retry(f"{answer.who} answered without any data")
    return verified(given, question.asked["email"]) if "email" in question.asked else found(given)


def _let_rest(job: Job, lasts: timedelta, reason: str) -> datetime:
    """Until when."""
    rest(job, KEY, reason, lasts)
    return job.now + lasts


def verified(given: Mapping[str, Any], mail: str) -> Known:
    return {"email": mail, **_judgement(given)}


def found(given: Mapping[str, Any]) -> Known:
    known = picked(given, FOUND)
    mail = given.get("email")
    if isinstance(mail, str) and is_mail(mail) and mail.isprintable():
        verification = given.get("verification")
        judged = {**given, **(verification if isinstance(verification, dict) else {})}
        known |= {"email": mail, **_judgement(judged)}
    return known


def _judgement(given: Mapping[str, Any]) -> Known:
    status, score = given.get("status"), given.get("score")
    fits = isinstance(status, str) and status.isprintable() and len(status) <= STATUS_LENGTH
    is_score = type(score) is int and 0 <= score <= 100
    return {"email_status": status if fits else None, "email_score": score if is_score else None}
