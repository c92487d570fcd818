"""Notifications to real HTTP servers: requests per kind, no duplicates, and outcomes of failures."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from handlers.http.public_pool import is_public
from handlers.notify.payloads import Notification
from handlers.notify.tables import Subscription
from handlers.notify.webpush import content_of, encrypted, tag_of
from mayfly import enqueue
from mayfly.client import current_app
from mayfly.testing import Drained, drain, enqueued_jobs
from tests.handlers.notify.browsers import Browser, signed_claims
from tests.handlers.notify.conftest import PERSON, Subscribe
from tests.handlers.rows import select
from tests.hypothesis_profiles import in_full

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
PUSH_LIMIT = 4096  # bytes that every push service must accept
PAYLOAD = {"person": PERSON, "title": "New post", "body": "Ann: <!here> a & b", "url": "https://shop.example/7"}


def notify(**changes: object) -> Drained:
    enqueue("notify_push", {**PAYLOAD, **changes})
    return drain(advance=True, raises=False)


def outcomes_of_children(drained: Drained) -> list[str]:
    return [run.kind.value for run in drained.runs if "subscription" in run.job.payload]


@SQLITE
def test_a_browser_can_decrypt_and_verify_a_push(subscribe: Subscribe, sender: str) -> None:
    """Encrypted for it, signed with the configured key for its push service."""
    browser = Browser()
    service = subscribe("webpush", **browser.keys)
    service.status = 201

    drained = notify(key="post:7")

    [request] = service.requests
    key, claims = signed_claims(request.headers["Authorization"])
    content = browser.decrypt(request.body)
    assert drained.outcomes == {"done": 2}
    assert (content["title"], content["body"], content["url"]) == ("New post", PAYLOAD["body"], PAYLOAD["url"])
    assert content["tag"] == request.headers["Topic"]
    assert (key, claims["aud"], claims["sub"]) == (sender, service.url, "mailto:ops@shop.example")
    assert (request.headers["Content-Encoding"], request.headers["TTL"]) == ("aes128gcm", "86400")


@SQLITE
def test_chats_and_phones_have_their_own_formats(subscribe: Subscribe) -> None:
    """No text can notify a whole channel; ntfy gets topic and token."""
    chat, phone = subscribe("webhook", 1), subscribe("ntfy", 2, token="t0ken")

    drained = notify()

    [to_chat], [to_phone] = chat.requests, phone.requests
    assert drained.outcomes == {"done": 3}
    assert json.loads(to_chat.body) == {"text": "*New post*\nAnn: &lt;!here&gt; a &amp; b\n<https://shop.example/7>"}
    assert (to_phone.path, to_phone.headers["Authorization"]) == ("/s3cret", "Bearer t0ken")
    assert json.loads(to_phone.body) == {
        "topic": "t0pic", "title": "New post", "message": PAYLOAD["body"], "click": PAYLOAD["url"],
    }  # fmt: skip


def test_a_failed_subscription_is_retried_alone(subscribe: Subscribe) -> None:
    """Each subscription has its own job."""
    good, bad, other = subscribe("webhook", 1), subscribe("webhook", 2), subscribe("ntfy", 3)
    bad.status = 500

    drained = notify()

    assert outcomes_of_children(drained) == ["done", "failed", "done", *["failed"] * 10, "dead"]
    assert [len(each.requests) for each in (good, bad, other)] == [1, 12, 1]


def test_the_same_notification_is_sent_once(subscribe: Subscribe) -> None:
    """Also by another job with the same key; another key is another notification."""
    chat = subscribe("webhook")

    outcomes = [notify(key="post:7").outcomes, notify(key="post:7").outcomes, notify(key="post:8").outcomes]

    assert outcomes == [{"done": 2}] * 3
    assert len(chat.requests) == 2


@pytest.mark.every_database
def test_a_subscription_that_is_gone_is_deleted(subscribe: Subscribe, platform: str) -> None:
    """After 404 and 410 the job is done; the others stay. On every database."""
    gone, never, stays = subscribe("webpush", 1, **Browser().keys), subscribe("webhook", 2), subscribe("webhook", 3)
    gone.status, never.status = 410, 404

    first, second = notify(), notify()

    assert (first.outcomes, second.outcomes) == ({"done": 4}, {"done": 2})
    assert [len(each.requests) for each in (gone, never, stays)] == [1, 1, 2]
    assert select(platform, "SELECT id FROM app_subscriptions") == [(3,)]


@SQLITE
def test_a_renewed_subscription_stays(subscribe: Subscribe, platform: str) -> None:
    """A job for a deleted one is done without a call."""
    subscribe("webhook", 1)

    enqueue("notify_push", {**PAYLOAD, "subscription": 2})
    enqueue("notify_push", {**PAYLOAD, "person": PERSON + 1, "subscription": 1})

    assert [run.result for run in drain().runs] == [{"gone": 2}, {"gone": 1}]


@SQLITE
def test_a_person_without_subscriptions_is_no_failure(subscribe: Subscribe) -> None:
    """The job is done."""
    drained = notify()

    assert [run.result for run in drained.runs] == [{"subscriptions": 0}]


@SQLITE
@pytest.mark.parametrize(
    ("status", "headers", "mode", "outcomes"),
    [
        (401, {}, "answers", ["dead"]),
        (413, {}, "answers", ["dead"]),
        (429, {"Retry-After": "90"}, "answers", ["snoozed"]),
        (500, {}, "answers", ["failed"]),
        (200, {}, "half", ["failed"]),
        (200, {}, "garbage", ["failed"]),
        (200, {}, "huge", ["dead"]),
    ],
)
def test_the_answer_decides(
    subscribe: Subscribe, status: int, headers: dict[str, str], mode: str, outcomes: list[str]
) -> None:
    """Temporary errors are retried, after Retry-After; lost connections too."""
    chat = subscribe("webhook")
    chat.status, chat.headers, chat.mode = status, headers, mode
    enqueue("notify_push", PAYLOAD)

    drained = drain(raises=False)

    assert outcomes_of_children(drained) == outcomes


@SQLITE
def test_a_timeout_is_retried(subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A duplicate is better than a lost notification."""
    chat = subscribe("webhook")
    chat.mode = "silent"
    enqueue("notify_push", PAYLOAD)

    with monkeypatch.context() as patched:
        patched.setattr("handlers.notify.delivery.RESPONSE_SECONDS", 0.2)
        first = drain(raises=False)
    chat.mode = "answers"
    second = drain(advance=True)

    assert not chat.waited_too_long
    assert (outcomes_of_children(first), outcomes_of_children(second)) == (["failed"], ["done"])
    assert len(chat.requests) == 2


@pytest.mark.every_database
def test_a_lane_may_hold_unknown_answers(subscribe: Subscribe) -> None:
    """In the same run or in a later one; a refusal is no doubt. On every database."""
    app = current_app()
    app.settings = app.settings.replace(lanes={"notify": app.settings.unset_lane.replace(on_doubt="hold")})
    chat = subscribe("webhook")
    chat.mode = "half"

    first, again = notify(key="post:7"), notify(key="post:7")
    chat.mode, chat.status = "answers", 500
    refused = notify(key="post:8")

    reasons = [str(each.runs[-1].reason) for each in (first, again)]
    assert [outcomes_of_children(each) for each in (first, again)] == [["dead"], ["dead"]]
    assert (
        reasons == ["handed over to webhook 1 at 127.0.0.1, outcome unknown: held, because it may have been sent"] * 2
    )
    assert outcomes_of_children(refused) == [*["failed"] * 11, "dead"]
    assert len(chat.requests) == 13


@SQLITE
@pytest.mark.parametrize("kind", ["webpush", "webhook", "ntfy"])
def test_no_secret_is_shown(subscribe: Subscribe, platform: str, kind: str) -> None:
    """Neither in errors nor in tables, although the server quotes everything."""
    service = subscribe(kind, token="t0ken-s3cret", **Browser().keys)
    service.status, service.body = 403, b"you may not s3cret t0pic"

    drained = notify()

    shown = " ".join(
        str(each) for each in (enqueued_jobs(), select(platform, "SELECT * FROM app_idempotency"), drained)
    )
    assert outcomes_of_children(drained) == ["dead"]
    assert "127.0.0.1 returned 403" in shown
    assert not [each for each in ("s3cret", "t0pic", *Browser().keys.values()) if each in shown]


@SQLITE
def test_a_private_address_is_not_called(subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscriptions come from users; hosts in PRIVATE_HOSTS are allowed."""
    monkeypatch.delenv("PRIVATE_HOSTS")
    chat = subscribe("webhook")

    drained = notify()

    assert outcomes_of_children(drained) == ["dead"]
    assert "127.0.0.1 is not a public address" in str(drained.runs[-1].reason)
    assert chat.requests == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("::ffff:100.64.0.1", False),
        ("64:ff9b::127.0.0.1", False),
        ("64:ff9b::10.1.2.3", False),
        ("64:ff9b::169.254.169.254", False),
        ("64:ff9b::93.184.216.34", True),
        ("64:ff9b:1::10.1.2.3", False),
        ("2002:7f00:1::1", False),
        ("2002:a01:203::1", False),
        ("2002:5db8:d822::1", True),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    """IPv4-mapped, NAT64 and 6to4 addresses count as the IPv4 address in them."""
    assert is_public(address) is public


@SQLITE
@pytest.mark.parametrize("missing", ["VAPID_PRIVATE_KEY", "VAPID_SUBJECT"])
def test_without_a_key_only_browsers_are_cancelled(
    subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """As for every integration that is not configured."""
    monkeypatch.delenv(missing)
    service, chat = subscribe("webpush", 1, **Browser().keys), subscribe("webhook", 2)

    drained = notify()

    assert outcomes_of_children(drained) == ["cancelled", "done"]
    assert drained.runs[1].reason == f"integration not configured: {missing}"
    assert (len(service.requests), len(chat.requests)) == (0, 1)


@SQLITE
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("VAPID_PRIVATE_KEY", "n0t-a-s3cret-key", "VAPID_PRIVATE_KEY or VAPID_SUBJECT cannot be used: "),
        ("VAPID_SUBJECT", "no-address", "VAPID_PRIVATE_KEY or VAPID_SUBJECT cannot be used: "),
        ("p256dh", "c2hvcnQ", "the keys of subscription 1 cannot be used: "),
        ("p256dh", "!", "the keys of subscription 1 cannot be used: "),
        ("p256dh", None, "the keys of subscription 1 cannot be used: "),
    ],
)
def test_invalid_keys_are_final(
    subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None, reason: str
) -> None:
    """They are not shown, and nothing is handed over."""
    keys: dict[str, str | None] = {**Browser().keys}
    if name.isupper():
        monkeypatch.setenv(name, str(value))
    else:
        keys[name] = value
    service = subscribe("webpush", **keys)

    drained = notify()

    assert outcomes_of_children(drained) == ["dead"]
    assert str(drained.runs[-1].reason).startswith(reason)
    assert "s3cret" not in str(drained.runs[-1].reason)
    assert service.requests == []


@SQLITE
@pytest.mark.parametrize(
    ("kind", "columns", "reason"),
    [
        ("webhook", {"url": "http://[s3cret"}, "the URL of subscription 1 is not valid"),
        ("webhook", {"url": "s3cret"}, "the URL of subscription 1 is not valid"),
        ("ntfy", {"url": "http://s3cret.example/"}, "the URL of subscription 1 names no topic"),
        ("ntfy", {"token": "t0ken\ns3cret"}, "the token of subscription 1 cannot be used"),
        ("webhook", {"url": "ftp://push.example/s3cret"}, "the base URL of an integration must begin with http"),
    ],
)
def test_invalid_rows_are_final(subscribe: Subscribe, kind: str, columns: dict[str, str], reason: str) -> None:
    """They are the application's; nothing of them is shown."""
    subscribe(kind, **columns)

    drained = notify()

    assert outcomes_of_children(drained) == ["dead"]
    assert str(drained.runs[-1].reason).startswith(reason)
    assert "s3cret" not in str(drained.runs[-1].outcome)


ANYTHING = st.one_of(st.none(), st.integers(), st.text(), st.floats(), st.lists(st.text(), max_size=2))


@in_full(50)
@given(st.dictionaries(st.sampled_from([*Notification.model_fields, "extra"]), ANYTHING))
def test_any_payload_is_refused_or_fits_into_a_push(payload: dict[str, object]) -> None:
    """No accepted payload is too long for a push service."""
    browser = Browser()
    try:
        notification = Notification.model_validate({"person": 1, "title": "x", **payload})
    except ValidationError:
        return

    body = pushed(notification, browser)

    assert len(body) <= PUSH_LIMIT
    assert browser.decrypt(body)["body"] == notification.body


def pushed(notification: Notification, browser: Browser) -> bytes:
    subscription = Subscription(1, "webpush", "https://push.example/x", **browser.keys)
    return encrypted(content_of(notification, tag_of("key")), subscription)


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({"body": "x" * 3791}, True),
        ({"body": "\n" * 1895}, True),
        ({"body": "\n" * 1896}, False),
        ({"body": "\U0001f600" * 947}, True),
        ({"body": "\U0001f600" * 948}, False),
        ({"body": "x\x00"}, False),
        ({"url": "javascript:alert(1)"}, False),
        ({"title": "a\nb"}, False),
        ({"title": ""}, False),
    ],
)
def test_the_size_of_a_notification_is_limited(change: dict[str, str], fits: bool) -> None:
    """Limited in bytes as JSON, where escapes count double."""
    try:
        notification = Notification.model_validate({"person": 1, "title": "x", **change})
    except ValidationError:
        assert not fits
    else:
        assert fits
        assert len(pushed(notification, Browser())) <= PUSH_LIMIT
