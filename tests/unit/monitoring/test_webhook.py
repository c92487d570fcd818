"""Webhooks are signed according to the Standard Webhooks specification."""

import json
from datetime import UTC, datetime

from mayfly.monitoring.alerts import Alert, AlertKind
from mayfly.monitoring.channels import signed_headers, webhook_body
from tests.factories import NOON


def test_the_signature_is_that_of_the_standards_example() -> None:
    """The example is that of the specification and of the reference implementations."""
    secret, message_id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
    at = datetime.fromtimestamp(1614265330, UTC)

    headers = signed_headers(secret, message_id, b'{"test": 2432232314}', at)

    assert headers == {
        "webhook-id": message_id,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_the_body_describes_its_alert() -> None:
    """It has the three fields of the standard."""
    alert = Alert("f", AlertKind.DEAD, "send", "job 1 is dead: größer", NOON, NOON, times=2)

    message = json.loads(webhook_body(alert, "web-1", NOON))

    assert (message["type"], message["timestamp"]) == ("mayfly.alert.firing", "2026-05-04T12:00:00+00:00")
    assert message["data"]["detail"] == "job 1 is dead: größer"
    assert (message["data"]["kind"], message["data"]["times"], message["data"]["told_by"]) == ("dead job", 2, "web-1")
