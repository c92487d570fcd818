"""The shipped lanes and pools, in real cycles."""

import shutil
from datetime import timedelta

from mayfly.db.dialects import utc_from_driver
from tests.handlers.providers import provider
from tests.handlers.rows import insert
from tests.process.installation import CHECKOUT, Installation, wait_until

VACUUM_SECONDS = 40
MAX_WAIT = timedelta(seconds=5)


def test_a_notification_starts_within_seconds_beside_a_long_vacuum(embedded: Installation) -> None:
    """It is enqueued while the only runner of the pool misc is busy."""
    use_shipped_lanes(embedded)
    embedded.settings = {"PRIVATE_HOSTS": "127.0.0.1"}
    with provider() as chat:
        row = {"person_id": 7, "kind": "webhook", "url": f"{chat.url}/x", "created_at": "2026-05-04 12:00:00"}
        insert(embedded.url, "app_subscriptions", row)
        [vacuum] = embedded.enqueue("sleep", f'{{"seconds": {VACUUM_SECONDS}}}', lane="vacuum_logs")
        embedded.start("dispatcher")
        wait_until(lambda: embedded.job(vacuum).status == "processing", "the vacuum runs")

        payload = '{"person": 7, "subscription": 1, "title": "Hello"}'
        [notification] = embedded.enqueue("notify_push", payload, lane="notify")
        wait_until(lambda: embedded.job(notification).status == "done", "the notification is sent")

    sent = embedded.job(notification)
    waited = utc_from_driver(sent.started_at) - utc_from_driver(sent.created_at)
    assert (embedded.job(vacuum).status, len(chat.requests)) == ("processing", 1)
    assert waited < MAX_WAIT


def test_each_lane_of_the_smallest_pool_gets_its_turn(embedded: Installation) -> None:
    """One runner for seven lanes, each with more work than a window: all have started after seven cycles."""
    use_shipped_lanes(embedded)
    without_linger = {f"LANES__{lane}__LINGER": "0" for lane in ("SEND_EMAIL", "NOTIFY")}
    embedded.settings = {"WORKER_TIMEOUT": "1", "DISPATCH_TIMEOUT": "3", **without_linger}
    lanes = (
        "archive_board", "close_board", "health_check", "metric_rollup", "publish_post", "purge_sessions",
        "vacuum_logs",
    )  # fmt: skip
    for lane in lanes:
        embedded.enqueue("sleep", '{"seconds": 0.2}', count=30, lane=lane)

    for _ in lanes:
        embedded.dispatch()

    served = {row.lane for row in embedded.rows("SELECT DISTINCT lane FROM mayfly_jobs WHERE status = 'done'")}
    assert served == set(lanes)


def use_shipped_lanes(installation: Installation) -> None:
    shutil.copy(CHECKOUT / "handlers/mayfly.toml", installation.home)
