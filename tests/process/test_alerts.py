"""Real cycles that tell real servers: heartbeats, webhooks, mail; and that no receiver can harm a cycle."""

import base64
import hashlib
import hmac
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from dispatcher.lock import take_lock
from mayfly.process.state_dir import lock_path, open_state_dir
from mayfly.process.timing import Timing
from mayfly.settings import load
from tests.process.installation import Installation, wait_until
from tests.receivers import (
    Heard,
    Mailbox,
    Receiver,
    dripping_port,
    free_port,
    http_receiver,
    silent_port,
    smtp_receiver,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LIMIT_SECONDS = 2.0  # that notifications may add to a cycle; asserted with a margin of ten


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with http_receiver() as made:
        yield made


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with smtp_receiver() as made:
        yield made


def webhook(receiver: Receiver) -> dict[str, str]:
    return {"ALERT_WEBHOOK_URL": f"{receiver.url}/hook", "ALERT_WEBHOOK_SECRET": SECRET}


def told(receiver: Receiver) -> list[tuple[str, str, str]]:
    messages = [json.loads(each.body) for each in receiver.heard]
    return [(each["type"], each["data"]["kind"], each["data"]["subject"]) for each in messages]


# --- the heartbeat ----------------------------------------------------------------------------------------


def test_every_cycle_is_told_with_its_summary(embedded: Installation, receiver: Receiver) -> None:
    """That it began, and that it is over, in this order; an idle one too."""
    for _ in range(2):
        assert embedded.dispatch(HEARTBEAT_URL=f"{receiver.url}/uuid").returncode == 0

    assert receiver.paths == ["/uuid/start", "/uuid"] * 2
    line = dict(each.split("=") for each in receiver.heard[-1].text.split())
    assert (line["exit_code"], line["pending"], line["spawned"]) == ("0", "0", "0")
    assert int(line["duration_ms"]) > 0


@pytest.mark.parametrize(("type_name", "code"), [("crash", 1), ("sleep", 2)])
def test_a_cycle_that_fails_is_told_with_its_exit_code(
    embedded: Installation, receiver: Receiver, type_name: str, code: int
) -> None:
    """As healthchecks.io wants it."""
    embedded.enqueue(type_name, '{"seconds": 60}' if type_name == "sleep" else "{}")

    cycle = embedded.dispatch(HEARTBEAT_URL=receiver.url, WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="8")

    assert cycle.returncode == code
    assert receiver.paths == ["/start", f"/{code}"]
    assert f"exit_code={code}" in receiver.heard[1].text


def test_a_database_that_is_gone_is_told(embedded: Installation, receiver: Receiver) -> None:
    """With the sentence that stands in the log, and without the password."""
    url = f"mysql://mayfly:xyzzy@127.0.0.1:{free_port()}/mayfly"

    cycle = embedded.dispatch(HEARTBEAT_URL=receiver.url, DATABASE_URL=url)

    assert cycle.returncode == 1
    assert receiver.paths == ["/start", "/1"]
    assert "can't be reached" in receiver.heard[1].text
    assert "xyzzy" not in receiver.heard[1].text


def test_a_slow_start_is_not_told_after_the_end(embedded: Installation, receiver: Receiver) -> None:
    """A start that comes last would be one that never ends. Here the cycle between the two takes no time at all."""
    receiver.hesitates_at = "/start"
    script = (
        "from dispatcher.notify import Notifier; from mayfly.log import silent_log; "
        "from mayfly.process.timing import Timing, use_timing; "
        "use_timing(Timing(notify_seconds=40, request_seconds=20)); "
        "from mayfly.settings import load_settings; notifier = Notifier(load_settings(), silent_log()); "
        "notifier.begin(lambda: None); notifier.end(0, 'over')"
    )

    environment = embedded.environment(HEARTBEAT_URL=receiver.url)
    subprocess.run([sys.executable, "-c", script], env=environment, cwd="/", timeout=60, check=True)

    assert receiver.answered == ["/start", "/"]


def test_who_tells_of_the_start_does_not_hold_the_lock(embedded: Installation, receiver: Receiver) -> None:
    """Or no cycle could begin while a silent server is waited for."""
    receiver.is_silent = True
    killed = embedded.start("dispatcher", HEARTBEAT_URL=receiver.url)
    wait_until(lambda: receiver.heard, "the start is being told")
    killed.kill()
    killed.wait(60)

    lock = take_lock(lock_path(open_state_dir(load(embedded.environment()).settings)))

    assert lock is not None
    lock.close()


def test_a_skipped_cycle_is_no_heartbeat(embedded: Installation, receiver: Receiver) -> None:
    """If one hangs for ever, the silence is what tells of it."""
    lock = take_lock(lock_path(open_state_dir(load(embedded.environment()).settings)))
    assert lock is not None

    cycle = embedded.dispatch(HEARTBEAT_URL=receiver.url)

    lock.close()
    assert (cycle.returncode, receiver.heard) == (0, [])


# --- alerts -----------------------------------------------------------------------------------------------


def test_a_dead_job_is_told_once_and_then_that_it_is_over(installation: Installation, receiver: Receiver) -> None:
    """By a webhook that its receiver can check; not a second time within the hour."""
    installation.enqueue("give_up")
    for _ in range(2):
        assert installation.dispatch(**webhook(receiver)).returncode == 0

    assert told(receiver) == [("mayfly.alert.firing", "dead job", "give_up")]
    assert_signed(receiver.heard[0])
    detail = json.loads(receiver.heard[0].body)["data"]["detail"]
    assert detail.endswith("is dead (give_up, lane default): no such customer")
    assert "Alert sent (firing): dead job: job" in installation.log

    installation.execute("UPDATE mayfly_jobs SET status = 'cancelled' WHERE status = 'dead'")  # somebody saw to it
    installation.dispatch(**webhook(receiver))

    assert told(receiver)[1:] == [("mayfly.alert.recovered", "dead job", "give_up")]
    assert receiver.heard[1].headers["webhook-id"] != receiver.heard[0].headers["webhook-id"]


def test_a_killed_runner_is_told(embedded: Installation, receiver: Receiver) -> None:
    """By the cycle that saw it die."""
    embedded.enqueue("crash")

    cycle = embedded.dispatch(**webhook(receiver))

    assert cycle.returncode == 1
    assert ("mayfly.alert.firing", "runner killed", "default") in told(receiver)


def test_a_late_lane_is_told(embedded: Installation, receiver: Receiver) -> None:
    """One that nobody serves, for example."""
    embedded.enqueue("noop", lane="mail", run_at=embedded.now() - timedelta(minutes=6))
    settings = {"LANES__MAIL__LATENCY_TARGET": "5m", "LANES__MAIL__EXTERNAL": "true", **webhook(receiver)}

    assert embedded.dispatch(**settings).returncode == 0

    assert told(receiver) == [("mayfly.alert.firing", "lane late", "mail")]


def test_a_host_that_is_silent_is_told_by_another(embedded: Installation, receiver: Receiver) -> None:
    """And that it is back."""
    embedded.dispatch(HOST_NAME="there")
    embedded.execute("UPDATE mayfly_cycles SET started_at = datetime(started_at, '-10 minutes')")

    embedded.dispatch(HOST_NAME="here", **webhook(receiver))
    embedded.dispatch(HOST_NAME="there")
    embedded.dispatch(HOST_NAME="here", **webhook(receiver))

    assert told(receiver) == [
        ("mayfly.alert.firing", "host silent", "there"),
        ("mayfly.alert.recovered", "host silent", "there"),
    ]


def test_alerts_come_by_mail(installation: Installation, mailbox: Mailbox) -> None:
    """All of a cycle in one."""
    installation.enqueue("give_up")

    installation.dispatch(ALERT_MAIL_TO="ann@example.com,ops@example.com", ALERT_SMTP_URL=mailbox.url, HOST_NAME="a")

    [mail] = mailbox.mails
    assert (mail["To"], mail["From"]) == ("ann@example.com, ops@example.com", "mayfly@a")
    assert mail["Subject"] == "[mayfly] ALERT: dead job: give_up"
    assert "no such customer" in mail.get_content()


def test_what_one_way_refuses_the_other_tells(embedded: Installation, receiver: Receiver, mailbox: Mailbox) -> None:
    """And nobody is told again for the other's sake."""
    receiver.status = 500
    ways = {"ALERT_MAIL_TO": "ann@example.com", "ALERT_SMTP_URL": mailbox.url, **webhook(receiver)}
    embedded.enqueue("give_up")

    for _ in range(2):
        embedded.dispatch(**ways)

    assert (len(receiver.heard), len(mailbox.mails)) == (1, 1)
    assert "ERROR: Webhook alert delivery failed: 127.0.0.1 answered 500" in embedded.log


def test_what_nobody_takes_is_told_by_the_next_cycle(embedded: Installation, receiver: Receiver) -> None:
    """With the same id: a receiver that took it after all knows it."""
    embedded.enqueue("give_up")
    receiver.status = 500
    embedded.dispatch(**webhook(receiver))
    receiver.status = 204

    for _ in range(2):
        embedded.dispatch(**webhook(receiver))

    refused, taken = receiver.heard
    assert refused.headers["webhook-id"] == taken.headers["webhook-id"]
    assert "Alert sent (firing)" in embedded.log


# --- who does not take it ---------------------------------------------------------------------------------


def down(_receiver: Receiver) -> str:
    return f"http://127.0.0.1:{free_port()}"


def broken(receiver: Receiver) -> str:
    receiver.status = 500
    return receiver.url


def leading_elsewhere(receiver: Receiver) -> str:
    receiver.status = 302
    return receiver.url


def silent(receiver: Receiver) -> str:
    receiver.is_silent = True
    return receiver.url


def unknown(_receiver: Receiver) -> str:
    return "http://nobody.invalid"


@pytest.mark.parametrize("arrange", [down, broken, leading_elsewhere, silent, unknown])
def test_a_receiver_can_harm_no_cycle(
    embedded: Installation, receiver: Receiver, arrange: Callable[[Receiver], str]
) -> None:
    """Exit code and jobs are as without it; it costs two seconds at most, and a line in the log."""
    embedded.timing = Timing()
    url = arrange(receiver)
    embedded.dispatch()
    embedded.enqueue("give_up")
    embedded.enqueue("noop")
    plain = embedded.dispatch()
    embedded.enqueue("give_up")
    embedded.enqueue("noop")
    settings = {"ALERT_WEBHOOK_URL": url, "ALERT_WEBHOOK_SECRET": SECRET, "HEARTBEAT_URL": url}

    cycle = embedded.dispatch(**settings)

    assert (cycle.returncode, cycle.stderr) == (plain.returncode, plain.stderr) == (0, "")
    assert embedded.statuses() == {"done": 2, "dead": 2}
    assert seconds_after_the_summary(embedded) < 10 * LIMIT_SECONDS
    assert "ERROR: Sending the heartbeat " in embedded.log
    assert re.search("ERROR: (Webhook alert delivery failed|Sending alerts)", embedded.log)
    assert "/elsewhere" not in receiver.paths


def seconds_after_the_summary(installation: Installation) -> float:
    """By the times in the log: from where the last cycle sums up to the last that is said of it."""
    told = installation.log.rpartition("Dispatch Summary:")
    summed_up, last = (text.splitlines()[-1].partition(" ")[0] for text in (told[0], told[2]))
    return (datetime.fromisoformat(last) - datetime.fromisoformat(summed_up)).total_seconds()


def test_a_mail_server_that_says_nothing_harms_no_cycle(embedded: Installation) -> None:
    """It is waited for, but not for long."""
    embedded.timing = Timing()
    embedded.enqueue("give_up")
    with silent_port() as port:
        cycle = embedded.dispatch(ALERT_MAIL_TO="ann@example.com", ALERT_SMTP_URL=f"smtp://127.0.0.1:{port}")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert seconds_after_the_summary(embedded) < 10 * LIMIT_SECONDS
    assert re.search("ERROR: Mail alert delivery failed: 127.0.0.1: .*timed out", embedded.log)


def test_what_does_not_end_by_itself_is_ended(embedded: Installation, receiver: Receiver) -> None:
    """Whatever it hangs in: here, an answer of which a byte comes now and then, for ever."""
    embedded.timing = Timing()
    with dripping_port() as port:
        cycle = embedded.dispatch(HEARTBEAT_URL=f"http://127.0.0.1:{port}")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert seconds_after_the_summary(embedded) < 10 * LIMIT_SECONDS
    assert "ERROR: Sending the heartbeat timed out after 2 s; retrying in the next cycle" in embedded.log
    assert embedded.processes() == []


def test_no_secret_reaches_the_log(embedded: Installation, receiver: Receiver) -> None:
    """Neither the URLs, which are as good as passwords, nor the key, nor the mail server's password."""
    receiver.status = 500
    embedded.enqueue("give_up")

    embedded.dispatch(
        HEARTBEAT_URL=f"{receiver.url}/xyzzy-1",
        ALERT_WEBHOOK_URL=f"{receiver.url}/xyzzy-2?token=xyzzy-3",
        ALERT_WEBHOOK_SECRET=SECRET,
        ALERT_MAIL_TO="ann@example.com",
        ALERT_SMTP_URL=f"smtp://user:xyzzy-4@127.0.0.1:{free_port()}",
    )

    assert "Mail alert delivery failed" in embedded.log
    assert "xyzzy" not in embedded.log
    assert SECRET not in embedded.log


def assert_signed(heard: Heard) -> None:
    """As a receiver checks it."""
    headers = heard.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + heard.body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
