"""A runner imports what its jobs need, and nothing of other lanes."""

from tests.handlers.heavy_modules import extras, heavy_modules
from tests.handlers.notify.browsers import Browser, encoded
from tests.handlers.providers import provider
from tests.handlers.rows import insert
from tests.process.installation import Installation
from tests.process.test_idle_cycle import Run, write_snapshot


def test_a_notifying_runner_imports_only_what_it_needs(embedded: Installation) -> None:
    """HTTP, cryptography and SQLAlchemy; not the libraries for mail, PDF or comparison."""
    browser = Browser()
    key = browser.key.private_numbers().private_value.to_bytes(32)
    with provider() as service:
        subscription = {"id": 1, "person_id": 7, "kind": "webpush", "url": f"{service.url}/x", **browser.keys}
        insert(embedded.url, "app_subscriptions", {**subscription, "created_at": "2026-05-04 12:00:00"})
        embedded.enqueue("notify_push", '{"person": 7, "title": "Hello"}', lane="notify")
        secrets = {"VAPID_PRIVATE_KEY": encoded(key), "VAPID_SUBJECT": "mailto:ops@shop.example"}
        ran = Run(embedded, "-m", "runner", "--lane", "notify", PRIVATE_HOSTS="127.0.0.1", **secrets)

    [request] = service.requests
    assert (ran.returncode, embedded.statuses()) == (0, {"done": 2})
    assert browser.decrypt(request.body)["title"] == "Hello"
    assert {"http_ece", "py_vapid", "urllib3"} <= ran.modules
    assert ran.modules & heavy_modules() == extras()["push"] | {"ssl", "http.client", "sqlalchemy"}


def test_a_querying_runner_imports_only_sqlalchemy(embedded: Installation) -> None:
    """Not HTTP, which other types of its lane use. (SQLAlchemy imports asyncio, which imports ssl.)"""
    write_snapshot(embedded)
    embedded.enqueue("purge_sessions", lane="purge_sessions")

    ran = Run(embedded, "-m", "runner", "--lane", "purge_sessions")

    assert (ran.returncode, embedded.statuses()) == (0, {"done": 1})
    assert ran.modules & heavy_modules() == {"sqlalchemy", "ssl"}
