"""Heartbeats, webhooks and mails of real cycles to real servers; a bad receiver never harms a cycle."""

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

from dispatcher.context import take_lock
from mayfly.process import Timing
from mayfly.process.state_dir import lock_path, open_state_dir
from mayfly.settings import load
from tests.process.installation import Installation, wait_until
from tests.receivers import (
    Mailbox,
    Receiver,
    ReceiverRequest,
    dripping_port,
    free_port,
    http_receiver,
    silent_port,
    smtp_receiver,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LIMIT_SECONDS = 2.0  # the time that notifications may add to a cycle; asserted with a margin of ten


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


def alerts_received(receiver: Receiver) -> list[tuple[str, str, str]]:
    messages = [json.loads(each.body) for each in receiver.requests]
    return [(each["type"], each["data"]["kind"], each["data"]["subject"]) for each in messages]


# --- the heartbeat ----------------------------------------------------------------------------------------


def test_every_cycle_sends_start_and_end_heartbeats(embedded: Installation, receiver: Receiver) -> None:
    """An idle cycle sends them too, and the second one carries the figures of the summary."""
    for _ in range(2):
        assert embedded.dispatch(HEARTBEAT_URL=f"{receiver.url}/uuid").returncode == 0

    assert receiver.paths == ["/uuid/start", "/uuid"] * 2
    line = dict(each.split("=") for each in receiver.requests[-1].text.split())
    assert (line["exit_code"], line["pending"], line["spawned"]) == ("0", "0", "0")
    assert int(line["duration_ms"]) > 0


def test_a_capped_count_is_sent_as_a_number(embedded: Installation, receiver: Receiver) -> None:
    """The log shows 1000+; receivers parse the figures."""
    embedded.enqueue("noop", count=1100)
    embedded.run("mayfly", "pause", "lane", "default")

    embedded.dispatch(HEARTBEAT_URL=receiver.url)

    line = dict(each.split("=") for each in receiver.requests[-1].text.split())
    assert "Pending jobs: 1000+" in embedded.log
    assert line["pending"] == "1000"


@pytest.mark.parametrize(("type_name", "code"), [("crash", 1), ("sleep", 2)])
def test_a_failed_cycle_sends_its_exit_code(
    embedded: Installation, receiver: Receiver, type_name: str, code: int
) -> None:
    """The code is the last part of the path, as healthchecks.io expects."""
    embedded.enqueue(type_name, '{"seconds": 60}' if type_name == "sleep" else "{}")

    cycle = embedded.dispatch(HEARTBEAT_URL=receiver.url, WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="8")

    assert cycle.returncode == code
    assert receiver.paths == ["/start", f"/{code}"]
    assert f"exit_code={code}" in receiver.requests[1].text


def test_an_unreachable_database_is_reported(embedded: Installation, receiver: Receiver) -> None:
    """The heartbeat carries the error message of the log, without the password."""
    url = f"mysql://mayfly:xyzzy@127.0.0.1:{free_port()}/mayfly"

    cycle = embedded.dispatch(HEARTBEAT_URL=receiver.url, DATABASE_URL=url)

    assert cycle.returncode == 1
    assert receiver.paths == ["/start", "/1"]
    assert "can't be reached" in receiver.requests[1].text
    assert "xyzzy" not in receiver.requests[1].text


def test_a_slow_start_heartbeat_is_sent_before_the_end(embedded: Installation, receiver: Receiver) -> None:
    """A start that arrives last would look like a hanging cycle. Here the cycle itself takes no time."""
    receiver.delays_path = "/start"
    script = (
        "from dispatcher.notify import Notifier; from mayfly.log import silent_log; "
        "from mayfly.process import Timing, use_timing; "
        "use_timing(Timing(notify_seconds=40, request_seconds=20)); "
        "from mayfly.settings import load_settings; "
        "notifier = Notifier(load_settings(), silent_log(), lambda: None); notifier.end(0, 'over')"
    )

    environment = embedded.environment(HEARTBEAT_URL=receiver.url)
    subprocess.run([sys.executable, "-c", script], env=environment, cwd="/", timeout=60, check=True)

    assert receiver.answered == ["/start", "/"]


def test_sending_the_start_heartbeat_does_not_hold_the_lock(embedded: Installation, receiver: Receiver) -> None:
    """Otherwise no cycle could start while a server does not answer."""
    receiver.is_silent = True
    killed = embedded.start("dispatcher", HEARTBEAT_URL=receiver.url)
    wait_until(lambda: receiver.requests, "the start is being sent")
    killed.kill()
    killed.wait(60)
    path = lock_path(open_state_dir(load(embedded.environment()).settings))

    def lock_is_free() -> bool:
        """Not at once: a child that was forked right before the kill closes its copy a moment later."""
        lock = take_lock(path)
        if lock is not None:
            lock.close()
        return lock is not None

    wait_until(lock_is_free, "the lock is free", seconds=5)

    assert len(receiver.requests) == 1


def test_a_skipped_cycle_sends_no_heartbeat(embedded: Installation, receiver: Receiver) -> None:
    """If a cycle hangs, the missing heartbeats reveal it."""
    lock = take_lock(lock_path(open_state_dir(load(embedded.environment()).settings)))
    assert lock is not None

    cycle = embedded.dispatch(HEARTBEAT_URL=receiver.url)

    lock.close()
    assert (cycle.returncode, receiver.requests) == (0, [])


# --- alerts -----------------------------------------------------------------------------------------------


def test_a_dead_job_fires_one_alert_and_one_recovery(installation: Installation, receiver: Receiver) -> None:
    """The webhook is signed, and is not repeated within the hour."""
    installation.enqueue("give_up")
    for _ in range(2):
        assert installation.dispatch(**webhook(receiver)).returncode == 0

    assert alerts_received(receiver) == [("mayfly.alert.firing", "dead job", "give_up")]
    assert_signed(receiver.requests[0])
    detail = json.loads(receiver.requests[0].body)["data"]["detail"]
    assert detail.endswith("is dead (give_up, lane default): no such customer")
    assert "Alert sent (firing): dead job: job" in installation.log

    installation.execute("UPDATE mayfly_jobs SET status = 'cancelled' WHERE status = 'dead'")
    installation.dispatch(**webhook(receiver))

    assert alerts_received(receiver)[1:] == [("mayfly.alert.recovered", "dead job", "give_up")]
    assert receiver.requests[1].headers["webhook-id"] != receiver.requests[0].headers["webhook-id"]


def test_many_alerts_of_one_type_are_one_message(installation: Installation, receiver: Receiver) -> None:
    """All of them count as sent: none follows in the next cycle."""
    for word in ("full", "unknown", "blocked", "closed", "moved"):
        installation.enqueue("give_up", json.dumps({"reason": f"550 mailbox {word}"}))
    for _ in range(2):
        assert installation.dispatch(**webhook(receiver)).returncode == 0

    assert alerts_received(receiver) == [("mayfly.alert.firing", "dead job", "give_up")]
    message = json.loads(receiver.requests[0].body)["data"]
    assert message["detail"].startswith("5 alerts about give_up: job ")
    assert (message["detail"].endswith("; and 2 more"), message["times"]) == (True, 5)
    assert installation.log.count("Alert sent (firing)") == 1


def test_bounces_are_one_alert(installation: Installation, receiver: Receiver) -> None:
    """They differ only in their data: addresses, hosts and codes."""
    names = ("ann", "bob.b", "o'neil", "d+x", "e_7", "f", "g", "h", "i", "j", "k", "l", "m", "n")
    for number, name in enumerate(names):
        host = ("example.org", "mail.firma.de", "a-b.co.uk", "x.example.com", "example.net")[number % 5]
        reason = f"550 5.1.{number} <{name}@{host}>: user unknown"
        installation.enqueue("give_up", json.dumps({"reason": reason}))

    installation.dispatch(**webhook(receiver))

    assert alerts_received(receiver) == [("mayfly.alert.firing", "dead job", "give_up")]
    assert json.loads(receiver.requests[0].body)["data"]["detail"].startswith("14 jobs are dead, the last is job ")


def test_a_killed_runner_fires_an_alert(embedded: Installation, receiver: Receiver) -> None:
    """The alert is sent by the cycle that saw the runner die."""
    embedded.enqueue("crash")

    cycle = embedded.dispatch(**webhook(receiver))

    assert cycle.returncode == 1
    assert ("mayfly.alert.firing", "runner killed", "default") in alerts_received(receiver)


def test_a_late_lane_fires_an_alert(embedded: Installation, receiver: Receiver) -> None:
    """For example an external lane that no worker serves."""
    embedded.enqueue("noop", lane="mail", run_at=embedded.now() - timedelta(minutes=6))
    settings = {"LANES__MAIL__LATENCY_TARGET": "5m", "LANES__MAIL__EXTERNAL": "true", **webhook(receiver)}

    assert embedded.dispatch(**settings).returncode == 0

    assert alerts_received(receiver) == [("mayfly.alert.firing", "lane late", "mail")]


def test_another_host_reports_a_silent_host(embedded: Installation, receiver: Receiver) -> None:
    """And its recovery."""
    embedded.dispatch(HOST_NAME="there")
    embedded.execute("UPDATE mayfly_cycles SET started_at = datetime(started_at, '-10 minutes')")

    embedded.dispatch(HOST_NAME="here", **webhook(receiver))
    embedded.dispatch(HOST_NAME="there")
    embedded.dispatch(HOST_NAME="here", **webhook(receiver))

    assert alerts_received(receiver) == [
        ("mayfly.alert.firing", "host silent", "there"),
        ("mayfly.alert.recovered", "host silent", "there"),
    ]


def test_alerts_are_sent_by_mail(installation: Installation, mailbox: Mailbox) -> None:
    """One mail contains all alerts of a cycle."""
    installation.enqueue("give_up")

    installation.dispatch(ALERT_MAIL_TO="ann@example.com,ops@example.com", ALERT_SMTP_URL=mailbox.url, HOST_NAME="a")

    [mail] = mailbox.mails
    assert (mail["To"], mail["From"]) == ("ann@example.com, ops@example.com", "mayfly@a")
    assert mail["Subject"] == "[mayfly] ALERT: dead job: give_up"
    assert "no such customer" in mail.get_content()


def test_a_failed_channel_does_not_stop_the_other(
    embedded: Installation, receiver: Receiver, mailbox: Mailbox
) -> None:
    """An alert delivered by one channel is not sent again because the other one failed."""
    receiver.status = 500
    ways = {"ALERT_MAIL_TO": "ann@example.com", "ALERT_SMTP_URL": mailbox.url, **webhook(receiver)}
    embedded.enqueue("give_up")

    for _ in range(2):
        embedded.dispatch(**ways)

    assert (len(receiver.requests), len(mailbox.mails)) == (1, 1)
    assert "ERROR: Webhook alert delivery failed: 127.0.0.1 answered 500" in embedded.log


def test_an_undelivered_alert_is_sent_by_the_next_cycle(embedded: Installation, receiver: Receiver) -> None:
    """It has the same webhook-id, so a receiver can recognise the repetition."""
    embedded.enqueue("give_up")
    receiver.status = 500
    embedded.dispatch(**webhook(receiver))
    receiver.status = 204

    for _ in range(2):
        embedded.dispatch(**webhook(receiver))

    refused, taken = receiver.requests
    assert refused.headers["webhook-id"] == taken.headers["webhook-id"]
    assert "Alert sent (firing)" in embedded.log


# --- bad receivers ----------------------------------------------------------------------------------------


def down(_receiver: Receiver) -> str:
    return f"http://127.0.0.1:{free_port()}"


def broken(receiver: Receiver) -> str:
    receiver.status = 500
    return receiver.url


def redirecting(receiver: Receiver) -> str:
    receiver.status = 302
    return receiver.url


def silent(receiver: Receiver) -> str:
    receiver.is_silent = True
    return receiver.url


def unknown(_receiver: Receiver) -> str:
    return "http://unknown.invalid"


@pytest.mark.parametrize("arrange", [down, broken, redirecting, silent, unknown])
def test_a_receiver_never_harms_a_cycle(
    embedded: Installation, receiver: Receiver, arrange: Callable[[Receiver], str]
) -> None:
    """Exit code and jobs are the same as without it; it costs two seconds at most, and a line in the log."""
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
    """By the times in the log: from the summary of the last cycle to its last line."""
    before, _, after = installation.log.rpartition("Dispatch Summary:")
    summed_up, last = (text.splitlines()[-1].partition(" ")[0] for text in (before, after))
    return (datetime.fromisoformat(last) - datetime.fromisoformat(summed_up)).total_seconds()


def test_a_silent_mail_server_does_not_harm_a_cycle(embedded: Installation) -> None:
    """The connection times out after a short time."""
    embedded.timing = Timing()
    embedded.enqueue("give_up")
    with silent_port() as port:
        cycle = embedded.dispatch(ALERT_MAIL_TO="ann@example.com", ALERT_SMTP_URL=f"smtp://127.0.0.1:{port}")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert seconds_after_the_summary(embedded) < 10 * LIMIT_SECONDS
    assert re.search("ERROR: Mail alert delivery failed: 127.0.0.1: .*timed out", embedded.log)


def test_an_endless_request_is_ended(embedded: Installation, receiver: Receiver) -> None:
    """Even if bytes of the response keep arriving."""
    embedded.timing = Timing()
    with dripping_port() as port:
        cycle = embedded.dispatch(HEARTBEAT_URL=f"http://127.0.0.1:{port}")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert seconds_after_the_summary(embedded) < 10 * LIMIT_SECONDS
    assert "ERROR: Sending the heartbeat timed out after 2 s; retrying in the next cycle" in embedded.log
    assert embedded.processes() == []


def test_no_secret_reaches_the_log(embedded: Installation, receiver: Receiver) -> None:
    """URLs, which are as good as passwords, webhook key and mail password are never logged."""
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


def assert_signed(request: ReceiverRequest) -> None:
    """As a receiver verifies it."""
    headers = request.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
