"""Notifications with a runner that is killed during a call."""

from tests.handlers.process.random_kills import kill
from tests.handlers.providers import provider
from tests.handlers.rows import insert, select
from tests.process.installation import RUN_SECONDS, Installation, wait_until

LEDGER = "SELECT effect_key, state, answer FROM app_idempotency ORDER BY effect_key"


def test_a_notification_in_doubt_is_sent_again(embedded: Installation) -> None:
    """The other one, which was sent, is not repeated."""
    embedded.settings = {"PRIVATE_HOSTS": "127.0.0.1", "BACKOFF_BASE": "0.01"}
    with provider() as well, provider() as mute:
        mute.mode = "silent"
        row = {"person_id": 7, "kind": "webhook", "created_at": "2026-05-04 12:00:00"}
        insert(embedded.url, "app_subscriptions", *({**row, "url": f"{each.url}/x"} for each in (well, mute)))
        embedded.enqueue("notify_push", '{"person": 7, "title": "Hello", "key": "k"}', lane="notify")
        cycle = embedded.start("dispatcher")
        wait_until(
            lambda: mute.requests and embedded.statuses().get("done") == 2, "one is sent, the other is being sent"
        )
        left = select(embedded.url, LEDGER)
        mute.mode = "answers"

        for pid in embedded.runner_pids():
            kill(pid)
        cycle.wait(RUN_SECONDS)
        while embedded.statuses().keys() & {"pending", "processing"}:
            embedded.dispatch()

    assert left == [("push:k:1", "done", "200"), ("push:k:2", "handed over", None)]
    assert select(embedded.url, LEDGER) == [("push:k:1", "done", "200"), ("push:k:2", "done", "200")]
    assert embedded.statuses() == {"done": 3}
    assert (len(well.requests), len(mute.requests)) == (1, 2)
