"""Mail through real runners that are killed at random moments: nobody gets two, and who gets none is held."""

import os
import random
import signal
import time
from contextlib import suppress

import pytest

from tests.handlers.mail.servers import post_office
from tests.process.installation import Installation, wait_until

PEOPLE = 60
KILLS = 6


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_random_moments_send_nothing_twice_and_lose_nothing(embedded: Installation, seed: int) -> None:
    """Under `hold`: each recipient has one mail and a job that is done, or the job is dead because nobody knows."""
    chance = random.Random(seed)
    with post_office(None) as post:
        post.takes_seconds = 0.02
        pool = f"smtp://127.0.0.1:{post.port}?from=ann@shop.example&tls=none&at_once=9&daily=100000"
        embedded.settings = {"SMTP_ACCOUNTS": pool, "BATCH_SIZE": "5", "MAX_WORKERS": "3"}
        embedded.run("mayfly", "migrate")
        embedded.run("mayfly", "migrate", "--app")
        ids = {
            number: embedded.enqueue(
                "send_email",
                f'{{"to": "{number}@example.com", "subject": "Hello", "text": "Dear you"}}',
                lane="send_email",
            )[0]
            for number in range(PEOPLE)
        }

        killed = 0
        while embedded.statuses().keys() & {"pending", "processing"}:
            cycle = embedded.start("dispatcher")
            while killed < KILLS and cycle.poll() is None:
                already = len(post.taken)
                wait_until(lambda: len(post.taken) > already or cycle.poll() is not None, "a mail is taken")  # noqa: B023
                time.sleep(chance.random() * 0.05)  # the random moment itself
                for pid in embedded.runner_pids()[:1]:
                    with suppress(ProcessLookupError):  # it came to its end by itself
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
            cycle.wait(60)

        jobs = {number: embedded.job(job_id) for number, job_id in ids.items()}
        held = {number for number, job in jobs.items() if "answer unknown" in (job.last_error or "")}
        assert killed == KILLS
        assert set(post.counts.values()) == {1}
        assert {number for number, job in jobs.items() if job.status != "done"} == held
        assert {number for number in ids if not post.counts[f"{number}@example.com"]} <= held
