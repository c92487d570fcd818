"""Hunter's API, version 2: find the address of a person, verify an address."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from handlers.cooldown import active_cooldowns, start_cooldown
from handlers.http import HttpClient, HttpResponse, ServiceUnreachable
from handlers.http.status import wait_seconds
from handlers.prospects.answer_cache import Known, picked
from handlers.prospects.match_keys import is_mail
from handlers.prospects.quota import KEY
from handlers.prospects.tables import Prospect
from mayfly import Dead, Job, Retry, Snooze, setting

RESPONSE_SECONDS = 15.0
URL = "https://api.hunter.io"
PENDING = 202  # an address is still being verified
TOO_FAST, QUOTA_USED_UP, OPTED_OUT = 403, 429, 451  # as documented by Hunter
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
FOUND = {"position": "title", "company": "company", "phone_number": "phone", "linkedin_url": "linkedin"}
MAX_STATUS_LENGTH = 32


class HunterQuestion(NamedTuple):
    path: str
    parameters: dict[str, str]


def question_for(prospect: Prospect) -> HunterQuestion | None:
    """None if the known fields do not suffice for a request."""
    if prospect["email"]:
        return verification_of(prospect["email"])
    if not prospect["name"]:
        return None
    domain = _domain(prospect["website"] or "")
    where = {"domain": domain} if domain else {"company": prospect["company"]}
    if not any(where.values()):
        return None
    return HunterQuestion("/v2/email-finder", {**where, "full_name": prospect["name"]})


def _domain(website: str) -> str:
    try:
        return urlsplit(website if "//" in website else f"//{website}").hostname or ""
    except ValueError:  # for example an incomplete IPv6 address
        return ""


def verification_of(mail: str) -> HunterQuestion:
    return HunterQuestion("/v2/email-verifier", {"email": mail})


def ask(job: Job, question: HunterQuestion) -> Known:
    until_at = active_cooldowns(job).get(KEY)
    if until_at is not None:
        raise Snooze(until=until_at, reason=f"{KEY} has a cooldown")
    grant = job.take(KEY, or_snooze=True)
    secret = setting("HUNTER_API_KEY")
    headers = {"X-API-KEY": secret}
    hunter = HttpClient(setting("HUNTER_URL", URL), headers=headers, response_seconds=RESPONSE_SECONDS)
    try:
        response = hunter.get(
            f"{question.path}?{urlencode(question.parameters)}", expected=(TOO_FAST, QUOTA_USED_UP, OPTED_OUT)
        )
        return _read(job, question, response)
    except ServiceUnreachable:
        grant.release()  # nothing was sent
        raise
    except Retry as error:  # the response may quote the request: the key must not appear in the job's error
        raise Retry(str(error).replace(secret, "***"), after=error.after) from None
    except Dead as error:
        raise Dead(str(error).replace(secret, "***")) from None


def _read(job: Job, question: HunterQuestion, response: HttpResponse) -> Known:
    if response.status == OPTED_OUT:
        return {"email_status": "opted out"}
    if response.status == QUOTA_USED_UP:
        wait = wait_seconds(response.headers.get("Retry-After"), job.now)
        until_at = _cool_down(job, DAY if wait is None else timedelta(seconds=wait), "its quota is used up")
        raise Snooze(until=until_at, reason=f"the quota at {response.host} is used up")
    if response.status == TOO_FAST:
        _cool_down(job, MINUTE, "too many requests")
        raise Retry(f"{response.host} returned {TOO_FAST}: too many requests", after=MINUTE)
    if response.status == PENDING:
        raise Retry(f"{response.host} is still verifying the address", after=MINUTE)
    body = response.json()
    given = body.get("data") if isinstance(body, dict) else None
    if not isinstance(given, dict):
        raise Retry(f"{response.host} returned no data")
    return verified(given, question.parameters["email"]) if "email" in question.parameters else found(given)


def _cool_down(job: Job, duration: timedelta, reason: str) -> datetime:
    """Start a cooldown and return its end."""
    start_cooldown(job, KEY, reason, duration)
    return job.now + duration


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
    fits = isinstance(status, str) and status.isprintable() and len(status) <= MAX_STATUS_LENGTH
    is_score = type(score) is int and 0 <= score <= 100
    return {"email_status": status if fits else None, "email_score": score if is_score else None}
