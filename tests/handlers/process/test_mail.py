"""Mail with runners that are killed within an SMTP dialogue: no duplicate, and a lost mail is held."""

from contextlib import suppress
from queue import Empty

import pytest

from tests.handlers.mail.servers import Post, Stop, post_office
from tests.handlers.process.random_kills import ended, kill, runner_at
from tests.process.installation import Installation

PEOPLE = 40
BEFORE = ("EHLO", "MAIL", "RCPT")  # nothing is handed over yet: the next runner sends it
IN_DOUBT = ("DATA", "taken")  # requested; taken but not answered


@pytest.mark.parametrize("before", BEFORE)
def test_kills_within_the_dialogue_send_nothing_twice_and_lose_nothing(
    installation: Installation, before: str
) -> None:
    """With `hold`, a mail is sent by another runner after a kill before its message, and held after a later kill.

    One kill before it: the retried job opens a new connection and may be hit again, and a third crash would make it
    dead for another reason.
    """
    moments = [before, *IN_DOUBT]  # EHLO first: later ones find an open connection
    with post_office(None) as post:
        pool = f"smtp://127.0.0.1:{post.port}?from=ann@shop.example&tls=none&at_once=9&daily=100000"
        installation.settings = {"SMTP_ACCOUNTS": pool, "BATCH_SIZE": "5", "MAX_WORKERS": "3", "BACKOFF_BASE": "0.05"}
        ids = {
            f"{number}@example.com": enqueue_mail(installation, f"{number}@example.com") for number in range(PEOPLE)
        }

        killed = killed_at(installation, post, moments)

    doubtful = {stop.recipient for stop in killed if stop.moment in IN_DOUBT}
    jobs = {recipient: installation.job(job_id) for recipient, job_id in ids.items()}
    errors = [job.last_error for job in jobs.values() if job.status == "dead"]
    assert sorted(stop.moment for stop in killed) == sorted([before, *IN_DOUBT])
    assert {recipient for recipient, job in jobs.items() if job.status != "done"} == doubtful
    assert sum("outcome unknown (an earlier run ended before the reply): held" in each for each in errors) == 2
    assert set(post.counts.values()) == {1}
    assert len(ids.keys() - post.counts.keys()) == 1  # its message was requested and never sent
    assert ids.keys() - post.counts.keys() <= doubtful


def enqueue_mail(installation: Installation, recipient: str) -> int:
    payload = f'{{"to": "{recipient}", "subject": "Hello", "text": "Dear you"}}'
    return installation.enqueue("send_email", payload, lane="send_email")[0]


def killed_at(installation: Installation, post: Post, moments: list[str]) -> list[Stop]:
    """Kill one runner at each of these points, in cycles until all jobs have ended."""
    post.stop_at = moments
    killed, is_over = [], ended(installation)
    while not is_over():
        cycle = installation.start("dispatcher")
        while cycle.poll() is None:
            with suppress(Empty):
                stop = post.stops.get(timeout=0.1)
                kill(runner_at(installation, stop.client_port))
                stop.is_over.set()
                killed.append(stop)
    return killed
