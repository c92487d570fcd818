"""Loading all handlers imports none of their libraries, and a missing library breaks one area only."""

import json
import subprocess
import sys

import pytest

from tests.handlers.heavy_modules import extras, heavy_modules
from tests.handlers.notify.browsers import Browser
from tests.handlers.rows import insert
from tests.process.installation import CHECKOUT

LOAD = """
import sys
for name in {blocked}:
    sys.modules[name] = None
from mayfly.registry import load_handlers
registry = load_handlers(["handlers"])
import json
print(json.dumps([sorted(registry.handlers), dict(registry.failures), list(sys.modules)]))
"""
DRAIN = """
import sys
for name in {blocked}:
    sys.modules[name] = None
from mayfly import enqueue
from mayfly.testing import drain, using_database
with using_database({url!r}):
    enqueue("notify_push", dict(person=7, title="Hello", subscription=1))
    enqueue("purge_sessions")
    for run in drain(raises=False).runs:
        print(run.job.type, run.kind.value, run.reason)
"""


def printed(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout


def test_loading_all_handlers_imports_no_heavy_module() -> None:
    """A runner of any lane starts by loading them, and may need no database queries of its own."""
    types, failures, modules = json.loads(printed(LOAD.format(blocked=[])))

    assert {"send_email", "notify_push", "health_check"} <= set(types)
    assert failures == {}
    assert heavy_modules() & set(modules) == set()


def test_loading_all_handlers_needs_no_extra() -> None:
    """Every type is known if no extra is installed."""
    everything = sorted(set().union(*extras().values()))

    types, failures, _ = json.loads(printed(LOAD.format(blocked=everything)))

    assert {"push", "mail", "http"} <= extras().keys()
    assert {"send_email", "notify_push", "health_check"} <= set(types)
    assert failures == {}


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("http_ece", "web push needs http_ece: pip install 'mayfly-jobs[push]'"),
        ("py_vapid", "web push needs py_vapid: pip install 'mayfly-jobs[push]'"),
        ("cryptography", "web push needs cryptography: pip install 'mayfly-jobs[push]'"),
        ("urllib3", "HTTP calls need urllib3: pip install 'mayfly-jobs[http]'"),
    ],
)
def test_a_missing_library_breaks_its_area_only(
    platform_url: str, monkeypatch: pytest.MonkeyPatch, missing: str, sentence: str
) -> None:
    """The error names the extra to install; jobs of other areas are done."""
    monkeypatch.setenv("VAPID_PRIVATE_KEY", "x" * 43)
    monkeypatch.setenv("VAPID_SUBJECT", "mailto:ops@shop.example")
    subscription = {"id": 1, "person_id": 7, "kind": "webpush", "url": "https://push.example/x", **Browser().keys}
    insert(platform_url, "app_subscriptions", {**subscription, "created_at": "2026-05-04 12:00:00"})

    output = printed(DRAIN.format(blocked=[missing], url=platform_url))

    assert output.splitlines() == [f"notify_push dead {sentence}", "purge_sessions done None"]
