"""Blasts with killed runners: each recipient gets one mail."""

import random
import time
from collections import Counter

import pytest

from tests.handlers.mail.servers import post_office
from tests.handlers.outreach.audience import SETTINGS, Tables
from tests.handlers.process.crash_points import KILLS_FILE, MOMENTS
from tests.handlers.process.random_kills import ended, kill
from tests.process.installation import Installation, wait_until

PAYLOAD = '{"blast": "spring", "to": "everybody", "subject": "Hello {{ name }}", "text": "Dear {{ name }}"}'
PEOPLE = 14
MANY = 50_000
FIGURES = "SELECT state, mails, sent, failed, cancelled FROM app_blasts"


@pytest.fixture
def platform(installation: Installation) -> Installation:
    installation.settings = {**SETTINGS, "MAX_WORKERS": "1", "BACKOFF_BASE": "0.05"}
    return installation


def test_kills_at_any_point_miss_and_repeat_no_recipient(platform: Installation) -> None:
    """At each point of a step, in random order; then the mails are sent and counted."""
    rng = random.Random(7)
    deaths = [f"{rng.randint(2, 3)} {each}\n" for each in rng.sample(MOMENTS, len(MOMENTS))]
    (platform.home / KILLS_FILE.name).write_text("".join(deaths))
    people = [f"{number}@example.com" for number in range(PEOPLE)]
    Tables(platform.url).people([*people, "spare@example.com", "SPARE@example.com"])
    blast = platform.enqueue("send_outreach", PAYLOAD, lane="send_outreach")[0]
    with post_office(None) as post:
        pool = f"smtp://127.0.0.1:{post.port}?from=ann@shop.example&tls=none&daily=100000"
        is_over = ended(platform)
        while not is_over():
            platform.dispatch(HANDLERS="handlers,tests.handlers.process.crash_points", SMTP_ACCOUNTS=pool)

    assert (platform.home / KILLS_FILE.name).read_text() == ""
    assert platform.job(blast).status == "done"
    assert post.counts == Counter([*people, "spare@example.com"])
    assert [tuple(row) for row in platform.rows(FIGURES)] == [("sent", PEOPLE + 1, PEOPLE + 1, 0, 0)]


@pytest.mark.slow
def test_a_blast_to_50_000_survives_kills(platform: Installation) -> None:
    """Each recipient has one pending mail."""
    rng = random.Random(7)
    Tables(platform.url).people(f"{number}@example.com" for number in range(MANY))
    blast = platform.enqueue("send_outreach", PAYLOAD, lane="send_outreach")[0]
    platform.run("mayfly", "pause", "type", "send_email")
    kill_at = sorted(rng.sample(range(1000, MANY - 5000, 500), 8))
    started, kills = time.monotonic(), 0

    def written() -> int:
        return int(platform.rows("SELECT COUNT(*) FROM app_blast_mails")[0][0])

    while platform.job(blast).status != "done":
        cycle = platform.start("dispatcher")
        while cycle.poll() is None and platform.job(blast).status != "done":
            if kill_at and written() >= kill_at[0]:
                del kill_at[0]
                for pid in platform.runner_pids():
                    kill(pid)
                    kills += 1
        cycle.terminate()
        wait_until(lambda: cycle.poll() is not None, "the cycle has ended")  # noqa: B023
    print(f"{MANY:,} recipients in {time.monotonic() - started:.1f} s, {kills} kills")

    assert kill_at == []
    assert tuple(platform.rows("SELECT COUNT(*), COUNT(DISTINCT address) FROM app_blast_mails")[0]) == (MANY, MANY)
    mails = [str(row.payload) for row in platform.rows("SELECT payload FROM mayfly_jobs WHERE type = 'send_email'")]
    assert len(mails) == len(set(mails)) == MANY
