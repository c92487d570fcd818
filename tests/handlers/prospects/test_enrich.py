"""Enrichment against real HTTP servers: questions, stored answers, and outcomes of failures."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from handlers.prospects.quota import BadQuota, limits_of, read_quota
from mayfly import Job, enqueue, handler
from mayfly.testing import Drained, drain
from tests.handlers.prospects.tables import execute, insert, prospects, rows
from tests.handlers.providers import Provider, provider
from tests.receivers import free_port

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
KEY = "s3cret-key"
VERIFIED = {"data": {"status": "valid", "score": 97, "email": "ann@acme.example"}, "meta": {}}
FOUND = {
    "data": {
        "email": "ann@acme.example", "score": 88, "position": "CTO", "company": "Acme", "phone_number": "+49 221 1",
        "linkedin_url": "https://linkedin.example/ann", "verification": {"date": "2026-05-04", "status": "valid"},
    }
}  # fmt: skip


@pytest.fixture
def hunter(platform: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with provider() as given:
        given.body = json.dumps(VERIFIED).encode()
        monkeypatch.setenv("HUNTER_URL", given.url)
        monkeypatch.setenv("HUNTER_API_KEY", KEY)
        yield given


@pytest.fixture
def scrapers(platform: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Provider]]:
    with provider() as one, provider() as other:
        for each in (one, other):
            each.body = b'{"profile": {"title": "CTO", "city": "K\\u00f6ln", "email": "no@x.example", "phone": 7}}'
        monkeypatch.setenv("SCRAPERS", f"{one.url}/profile {other.url}/profile")
        yield [one, other]


def ann(platform: str, **fields: Any) -> int:
    [prospect_id] = insert(platform, [{"name": "Ann Miller", "company": "Acme", **fields}])
    return prospect_id


def enrich(prospect_id: int, advance: bool | timedelta = False) -> Drained:
    enqueue("enrich_prospect", {"prospect": prospect_id})
    return drain(advance=advance, raises=False)


def error_of(drained: Drained) -> str:
    return str(drained.runs[-1].outcome.error)


@pytest.mark.every_database
def test_an_address_is_verified_once(platform: str, hunter: Provider) -> None:
    """The key is in a header; the answer is cached. On every database."""
    prospect = ann(platform, email="ann@acme.example")

    results = [enrich(prospect).runs[-1].result for _ in range(2)]

    [request] = hunter.requests
    assert request.path == "/v2/email-verifier?email=ann%40acme.example"
    assert request.headers["X-API-KEY"] == KEY
    assert results == [{"prospect": prospect, "learned": [], "email_status": "valid"}] * 2
    assert prospects(platform, "email_status, email_score") == [("valid", 97)]
    assert rows(platform, "SELECT enriched_at FROM app_prospects")[0].enriched_at is not None


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, "company=Acme&full_name=Ann+Miller"),
        ({"website": "https://user:pw@acme.example:8080/about"}, "domain=acme.example&full_name=Ann+Miller"),
        ({"website": "http://[acme"}, "company=Acme&full_name=Ann+Miller"),
        ({"website": "acme.example"}, "domain=acme.example&full_name=Ann+Miller"),
    ],
)
def test_an_address_is_found(platform: str, hunter: Provider, fields: dict[str, Any], asked: str) -> None:
    """By name and company or domain; known fields stay, and one call is enough. On every database."""
    hunter.body = json.dumps(FOUND).encode()
    prospect = ann(platform, phone="1", **fields)

    results = [enrich(prospect).runs[-1].result for _ in range(2)]

    assert [each.path for each in hunter.requests] == [f"/v2/email-finder?{asked}"]
    assert results[0]["learned"] == ["email", "title", "linkedin"]
    assert prospects(platform, "email, email_status, email_score, title, phone, email_key") == [
        ("ann@acme.example", "valid", 88, "CTO", "1", "ann@acme.example")
    ]


@SQLITE
def test_an_old_answer_is_not_used(platform: str, hunter: Provider) -> None:
    """After ENRICH_CACHE_DAYS."""
    prospect = ann(platform, email="ann@acme.example")
    enrich(prospect)
    execute(platform, "UPDATE app_cached_answers SET answered_at = '2020-01-01 00:00:00.000000'")

    enrich(prospect)

    assert len(hunter.requests) == 2
    assert len(rows(platform, "SELECT 1 FROM app_cached_answers")) == 1


@SQLITE
@pytest.mark.parametrize(
    ("status", "headers", "mode", "outcome", "reason"),
    [
        (401, {}, "answers", "dead", "127.0.0.1 returned 401"),
        (400, {}, "answers", "dead", "127.0.0.1 returned 400"),
        (500, {}, "answers", "failed", "127.0.0.1 returned 500"),
        (403, {}, "answers", "failed", "too many requests"),
        (202, {}, "answers", "failed", "still verifying"),
        (200, {}, "half", "failed", "closed the connection"),
        (200, {}, "garbage", "failed", "closed the connection"),
        (200, {}, "silent", "failed", "ReadTimeoutError"),
        (200, {}, "huge", "dead", "more than 1,048,576 bytes"),
        (429, {"Retry-After": "90"}, "answers", "snoozed", ""),
        (429, {}, "answers", "snoozed", ""),
    ],
)
def test_errors_of_hunter(
    platform: str,
    hunter: Provider,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    headers: dict[str, str],
    mode: str,
    outcome: str,
    reason: str,
) -> None:
    """Are not cached, and the key is not shown even if the answer quotes it."""
    if mode == "silent":
        monkeypatch.setattr("handlers.prospects.hunter.RESPONSE_SECONDS", 0.3)
    hunter.status, hunter.headers, hunter.mode = status, headers, mode
    hunter.body = f"your key was {KEY}".encode()

    drained = enrich(ann(platform, email="ann@acme.example"))

    assert drained.outcomes == {outcome: 1}
    assert reason in error_of(drained)
    assert KEY not in error_of(drained)
    assert rows(platform, "SELECT 1 FROM app_cached_answers") == []


@SQLITE
@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"data": []}', b"no json", b'"data"'])
def test_an_answer_of_another_shape_is_retried(platform: str, hunter: Provider, body: bytes) -> None:
    """It is not cached."""
    hunter.body = body

    assert enrich(ann(platform, email="ann@acme.example")).outcomes == {"failed": 1}
    assert rows(platform, "SELECT 1 FROM app_cached_answers") == []


@SQLITE
def test_invalid_values_are_ignored(platform: str, hunter: Provider) -> None:
    """Too long, of another type, or not storable."""
    odd = {"email": "no mail", "position": "x" * 500, "company": 7, "phone_number": "\ud800", "linkedin_url": "a\0b"}
    hunter.body = json.dumps({"data": odd}).encode()

    drained = enrich(ann(platform))

    assert drained.outcomes == {"done": 1}
    assert drained.runs[-1].result["learned"] == []


@SQLITE
def test_a_used_up_quota_starts_a_cooldown(platform: str, hunter: Provider) -> None:
    """For all jobs, until Retry-After, without using attempts."""
    hunter.status, hunter.headers = 429, {"Retry-After": "90"}
    first, second = (ann(platform, email=f"{name}@acme.example") for name in ("ann", "bob"))

    outcomes = [enrich(first).outcomes, enrich(second).outcomes]
    hunter.status = 200
    later = drain(advance=timedelta(minutes=5))

    assert outcomes == [{"snoozed": 1}, {"snoozed": 1}]
    assert (len(hunter.requests), later.outcomes) == (3, {"done": 2})
    assert {run.job.attempt for run in later.runs} == {1}


@SQLITE
@pytest.mark.usefixtures("_noon")
def test_the_quota_is_a_limit(platform: str, hunter: Provider) -> None:
    """A used up quota waits for the next window; cached answers need none."""
    from handlers.prospects.enrichment import enrich as enrich_one

    @handler("few", takes=limits_of(read_quota("1/day")))
    def few(job: Job) -> None:
        enrich_one(job, job.payload["prospect"])

    first, second = (ann(platform, email=f"{name}@acme.example") for name in ("ann", "bob"))
    for prospect in (first, second, first):
        enqueue("few", {"prospect": prospect})

    today = drain()
    tomorrow = drain(advance=timedelta(days=1))

    assert today.outcomes == {"done": 2, "snoozed": 1}
    assert tomorrow.outcomes == {"done": 1}
    assert len(hunter.requests) == 2


@SQLITE
def test_a_person_who_opted_out(platform: str, hunter: Provider) -> None:
    """451 is an answer."""
    hunter.status = 451

    drained = enrich(ann(platform, email="ann@acme.example"))

    assert drained.runs[-1].result["email_status"] == "opted out"


def test_a_scraper_is_asked_with_the_known_fields(platform: str, hunter: Provider, scrapers: list[Provider]) -> None:
    """Its answer is cached."""
    prospect = ann(platform, email="ann@acme.example", city="Bonn")

    for _ in range(2):
        enrich(prospect)

    [request] = [each for scraper in scrapers for each in scraper.requests]
    assert json.loads(request.body) == {"name": "Ann Miller", "company": "Acme", "email": "ann@acme.example"}
    assert (request.method, request.path) == ("POST", "/profile")
    assert prospects(platform, "title, city, phone, email") == [("CTO", "Bonn", None, "ann@acme.example")]


@SQLITE
@pytest.mark.parametrize(
    ("status", "mode", "body"),
    [
        (500, "answers", b"{}"),
        (404, "answers", b"{}"),
        (429, "answers", b"{}"),
        (200, "answers", b"no json"),
        (200, "answers", b'{"profile": 7}'),
        (200, "answers", b"{}"),
        (200, "half", b"{}"),
        (200, "garbage", b"{}"),
        (200, "silent", b""),
        (200, "huge", b""),
    ],
)
def test_a_failing_scraper_has_a_cooldown(
    platform: str,
    hunter: Provider,
    scrapers: list[Provider],
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    mode: str,
    body: bytes,
) -> None:
    """Another one is asked at once."""
    if mode == "silent":
        monkeypatch.setattr("handlers.prospects.scrapers.RESPONSE_SECONDS", 2.0)  # the other one answers in time
    bad, good = scrapers
    bad.status, bad.mode, bad.body, bad.headers = status, mode, body, {"Retry-After": "600"}
    for number in range(4):
        prospect = ann(platform, email=f"{number}@acme.example")
        assert enrich(prospect).outcomes == {"done": 1}

    assert (len(bad.requests), len(good.requests)) == (1, 4)
    [(name,)] = rows(platform, "SELECT provider FROM app_cooldowns")
    assert name.startswith("scraper:127.0.0.1:")


@SQLITE
def test_without_a_scraper_hunters_answer_is_kept(platform: str, hunter: Provider, scrapers: list[Provider]) -> None:
    """The job is retried, and waits during cooldowns; Hunter is not asked again."""
    for each in scrapers:
        each.status = 500
    prospect = ann(platform, email="ann@acme.example")

    first = enrich(prospect)
    second = drain(advance=timedelta(minutes=1), raises=False)
    for each in scrapers:
        each.status = 200
    last = drain(advance=timedelta(minutes=15), raises=False)

    assert (first.outcomes, second.outcomes, last.outcomes) == ({"failed": 1}, {"snoozed": 1}, {"done": 1})
    assert "no scraper responded: 127.0.0.1 returned 500" in error_of(first)
    assert prospects(platform, "email_status, title") == [("valid", "CTO")]
    assert len(hunter.requests) == 1


@pytest.mark.every_database
def test_not_found_is_an_answer(platform: str, hunter: Provider, scrapers: list[Provider]) -> None:
    """It is cached. On every database."""
    for each in scrapers:
        each.body = b'{"profile": null}'
    prospect = ann(platform, email="ann@acme.example")

    outcomes = [enrich(prospect).outcomes for _ in range(2)]

    assert outcomes == [{"done": 1}] * 2
    assert sum(len(each.requests) for each in scrapers) == 1


@pytest.mark.every_database
def test_a_merged_prospect_is_enriched_as_its_winner(platform: str, hunter: Provider) -> None:
    """On every database."""
    winner, loser = (ann(platform, email=mail) for mail in ("ann@acme.example", "ANN@acme.example"))
    enqueue("dedup_prospects")
    drain()

    drained = enrich(loser)

    assert drained.runs[-1].result["prospect"] == winner
    assert prospects(platform, "id, email_status", "1 = 1") == [(winner, "valid"), (loser, None)]


@SQLITE
def test_a_call_without_a_connection_uses_no_quota(
    platform: str, hunter: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another error does: the request was sent."""
    prospect = ann(platform, email="ann@acme.example")
    used = []
    for url in (f"http://127.0.0.1:{free_port()}", hunter.url):
        monkeypatch.setenv("HUNTER_URL", url)
        hunter.status = 500
        enrich(prospect)
        used.append(rows(platform, "SELECT used FROM mayfly_limits WHERE span = 'month'")[0][0])

    assert used == [0, 1]


@SQLITE
def test_missing_and_unknown_prospects(platform: str, hunter: Provider) -> None:
    """A missing one is final; one with too few fields causes no call."""
    assert "there is no prospect 99" in error_of(enrich(99))
    [only_a_name] = insert(platform, [{"name": "Ann"}])
    assert enrich(only_a_name).outcomes == {"done": 1}
    assert hunter.requests == []


@SQLITE
def test_without_a_key_jobs_are_cancelled(platform: str) -> None:
    """The integration is not configured."""
    assert enrich(ann(platform)).outcomes == {"cancelled": 1}


@pytest.mark.parametrize("text", ["", "50", "0/day", "5/year", "x/day", "5/second", "5 / day"])
def test_an_invalid_quota_is_an_error_message(text: str) -> None:
    """Like all settings."""
    with pytest.raises(BadQuota, match="HUNTER_QUOTA must be a number per"):
        read_quota(text)
