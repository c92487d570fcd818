"""HTTP calls: the outcome for each answer, and for none."""

import gzip
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from handlers.http import HttpClient, ResponseUnknown, ServiceUnreachable
from handlers.http.status import MAX_WAIT_SECONDS, wait_seconds
from mayfly import Dead, Retry, Snooze
from tests.handlers.providers import MIB, Provider, provider
from tests.process.installation import CHECKOUT
from tests.receivers import free_port

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def vendor() -> Iterator[Provider]:
    with provider() as given:
        yield given


def test_requests_and_answers_are_json(vendor: Provider) -> None:
    """With the headers of client and call, below the base URL."""
    vendor.body = b'{"id": 7}'
    outside = HttpClient(f"{vendor.url}/v1/", headers={"Authorization": "Bearer key"})

    answer = outside.post("/things", {"name": "ä"}, headers={"Idempotency-Key": "k1"})

    [request] = vendor.requests
    assert answer.json() == {"id": 7}
    assert (request.method, request.path) == ("POST", "/v1/things")
    assert request.body == b'{"name":"\\u00e4"}'
    assert (request.headers["Authorization"], request.headers["Idempotency-Key"]) == ("Bearer key", "k1")
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_client_errors_are_final(vendor: Provider, status: int) -> None:
    """With the answer; neither path nor query is shown, since they may contain a key."""
    vendor.status, vendor.body = status, b"no such\nthing"

    with pytest.raises(Dead) as raised:
        HttpClient(vendor.url).get("/hooks/s3cret?token=s3cret")

    assert str(raised.value) == f"127.0.0.1 returned {status}: no such thing"


def test_expected_statuses_are_returned(vendor: Provider) -> None:
    """For vendors that use a status differently."""
    vendor.status, vendor.body = 403, b"slow down"

    answer = HttpClient(vendor.url).get(expected=(403,))

    assert (answer.status, answer.body) == (403, b"slow down")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_temporary_errors_are_retried(vendor: Provider, status: int) -> None:
    """After the usual backoff without Retry-After."""
    vendor.status = status

    with pytest.raises(Retry, match=f"returned {status}") as raised:
        HttpClient(vendor.url).get()

    assert raised.value.after is None


def test_retry_after_snoozes_the_job(vendor: Provider) -> None:
    """Without using an attempt."""
    vendor.status, vendor.headers = 429, {"Retry-After": "90"}

    with pytest.raises(Snooze) as raised:
        HttpClient(vendor.url).get()

    assert raised.value.after == 90


def test_retry_after_may_be_a_date(vendor: Provider) -> None:
    """By the vendor's clock: a few seconds do not matter."""
    at = datetime.now(UTC) + timedelta(minutes=5)
    vendor.status, vendor.headers = 503, {"Retry-After": format_datetime(at, usegmt=True)}

    with pytest.raises(Retry) as raised:
        HttpClient(vendor.url).get()

    assert raised.value.after == pytest.approx(300, abs=10)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 1.0),
        ("120", 120.0),
        ("9" * 400, MAX_WAIT_SECONDS),
        ("Mon, 04 May 2026 12:02:00 GMT", 120.0),
        ("Mon, 04 May 2026 11:00:00 GMT", 1.0),
        ("Mon, 04 May 2099 11:00:00 GMT", MAX_WAIT_SECONDS),
        ("-5", None),
        ("²", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_bounded(header: str | None, seconds: float | None) -> None:
    """1 second to 1 day; invalid values are ignored."""
    assert wait_seconds(header, NOON) == seconds


@pytest.mark.parametrize("mode", ["half", "garbage"])
def test_an_incomplete_answer_is_retried(vendor: Provider, mode: str) -> None:
    """With any status."""
    vendor.mode = mode

    with pytest.raises(Retry, match=r"127\.0\.0\.1 is unreachable, or closed the connection: ProtocolError"):
        HttpClient(vendor.url).get()


def test_an_answer_that_is_not_json_is_retried(vendor: Provider) -> None:
    """Proxies answer 200 with an error page."""
    vendor.body = b"<html>We are sorry</html>"

    with pytest.raises(Retry, match="returned 200 with a body that is not JSON"):
        HttpClient(vendor.url).get().json()


def test_answers_have_a_timeout(vendor: Provider) -> None:
    """For the first byte and for the last."""
    vendor.mode = "silent"
    with pytest.raises(Retry, match="ReadTimeoutError"):
        HttpClient(vendor.url, response_seconds=0.3).get()
    vendor.mode = "drips"
    with pytest.raises(Retry, match=r"took more than 1\.5 s to respond"):  # its first byte comes long before
        HttpClient(vendor.url, response_seconds=1.5).get()


def test_a_failed_connection_is_retried() -> None:
    """For example during a deployment of the vendor."""
    with pytest.raises(Retry, match="cannot be reached"):
        HttpClient(f"http://127.0.0.1:{free_port()}").get()


@pytest.mark.parametrize("mode", ["half", "garbage", "silent", "drips"])
def test_unknown_answers_differ_from_failed_connections(vendor: Provider, mode: str) -> None:
    """Both are retried, but only the first may have had an effect."""
    vendor.mode = mode

    with pytest.raises(ResponseUnknown):
        HttpClient(vendor.url, response_seconds=0.3).post("/things", {})
    with pytest.raises(ServiceUnreachable) as raised:
        HttpClient(f"http://127.0.0.1:{free_port()}").post("/things", {})

    assert not isinstance(raised.value, ResponseUnknown)


@pytest.mark.parametrize("status", [302, 404, 429, 503])
def test_an_expected_status_is_an_answer(vendor: Provider, status: int) -> None:
    """Other statuses mean what they always do."""
    vendor.status, vendor.body = status, b"text"
    outside = HttpClient(vendor.url)

    answer = outside.call("POST", "/x", b"", expected=(status,))

    assert (answer.status, answer.body) == (status, b"text")
    with pytest.raises((Dead, Retry)):
        outside.call("POST", "/x", b"", expected=(200, 999))


def test_answers_need_not_be_quoted(vendor: Provider) -> None:
    """Some contain the URL of the request."""
    vendor.status, vendor.body = 403, b"/hooks/s3cret is not yours"

    with pytest.raises(Dead) as raised:
        HttpClient(vendor.url, quotes=False).get("/hooks/s3cret")

    assert str(raised.value) == "127.0.0.1 returned 403"


def test_private_addresses_are_refused(vendor: Provider) -> None:
    """For URLs that do not come from the operator."""
    with pytest.raises(Dead, match=r"127\.0\.0\.1 is not a public address"):
        HttpClient(vendor.url, public_only=True).post("/x", {"secret": 1})

    assert vendor.requests == []


def test_a_huge_answer_is_not_read(vendor: Provider) -> None:
    """It is final, and the rest of the 50 MB is not transferred."""
    vendor.mode = "huge"

    with pytest.raises(Dead, match="more than 1,048,576 bytes"):
        HttpClient(vendor.url).get()

    assert vendor.sent < 20 * MIB


def test_a_decompression_bomb_is_not_read(vendor: Provider) -> None:
    """The limit counts decompressed bytes."""
    vendor.body, vendor.headers = gzip.compress(bytes(50 * MIB)), {"Content-Encoding": "gzip"}

    with pytest.raises(Dead, match="more than 1,048,576 bytes"):
        HttpClient(vendor.url).get()


def test_redirects_are_not_followed(vendor: Provider) -> None:
    """A key for one host is not sent to another."""
    vendor.status, vendor.headers = 302, {"Location": f"{vendor.url}/elsewhere"}

    with pytest.raises(Dead, match="returned 302"):
        HttpClient(vendor.url, headers={"Authorization": "Bearer key"}).get("/here")

    assert [each.path for each in vendor.requests] == ["/here"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://vendor.example", "vendor.example", "http://"])
def test_a_base_url_must_be_http(url: str) -> None:
    """An invalid setting is final."""
    with pytest.raises(Dead, match="must begin with http"):
        HttpClient(url)


def test_a_missing_library_is_an_error_message() -> None:
    """Only when a call is made."""
    script = (
        "import sys; sys.modules['urllib3'] = None\n"
        "from handlers.http import HttpClient\n"
        "try: HttpClient('http://vendor.example')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True)

    assert run.stdout == "Dead HTTP calls need urllib3: pip install 'mayfly-jobs[http]'\n"
