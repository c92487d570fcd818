"""The answers of a model's server, or their absence: outcome of the job, and row in the ledger."""

from collections.abc import Iterator

import pytest

from mayfly import enqueue
from mayfly.testing import Drained, drain
from tests.handlers.ai.boards import Boards, rows, traces
from tests.handlers.ai.conftest import KEY
from tests.handlers.ai.models import PlayedModel, completion
from tests.handlers.providers import Provider, provider
from tests.receivers import free_port

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@pytest.fixture
def vendor(boards: Boards, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Answers correctly unless the test changes that."""
    boards.add(3, "Beans?")
    with provider() as given:
        given.body = completion('{"text": "Peas?"}', {"prompt_tokens": 10, "completion_tokens": 1})
        monkeypatch.setenv("OPENAI_URL", given.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield given


def ask() -> Drained:
    enqueue("ai_suggest_post", {"board": 3}, max_attempts=2)
    return drain()


@pytest.mark.parametrize(
    ("status", "outcomes", "error"),
    [(200, {"done": 1}, None), (401, {"dead": 1}, "returned 401: no"), (404, {"dead": 1}, "returned 404: no"),
     (500, {"failed": 1}, "returned 500: no"), (429, {"failed": 1}, "returned 429: no")],
)  # fmt: skip
def test_the_status_decides(vendor: Provider, status: int, outcomes: dict[str, int], error: str | None) -> None:
    """A refused call costs nothing."""
    vendor.status = status
    vendor.body = vendor.body if status == 200 else b"no"

    drained = ask()

    [trace] = traces()
    assert drained.outcomes == outcomes
    assert trace["error"] == (error and f"127.0.0.1 {error}")
    assert (trace["state"], trace["cost_micros"]) == (("done", 3) if status == 200 else ("failed", 0))


def test_retry_after_snoozes_the_job(vendor: Provider) -> None:
    """Without using an attempt."""
    vendor.status, vendor.headers = 429, {"Retry-After": "90"}

    drained = ask()

    assert drained.outcomes == {"snoozed": 1}
    assert [(each["state"], each["cost_micros"]) for each in traces()] == [("failed", 0)]


@pytest.mark.parametrize("mode", ["half", "garbage", "silent", "drips", "huge"])
def test_an_incomplete_answer(vendor: Provider, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Is retried, or dead if it is too large. It may have cost the maximum."""
    vendor.mode = mode
    if mode in ("silent", "drips"):
        monkeypatch.setenv("OPENAI_SECONDS", "0.3")

    drained = ask()

    [trace] = traces()
    assert drained.outcomes == ({"dead": 1} if mode == "huge" else {"failed": 1})
    assert (trace["state"], trace["answer"], trace["input_tokens"]) == ("failed", None, None)
    assert trace["cost_micros"] > 900  # 1,500 tokens of an answer
    assert trace["error"]


def test_a_failed_connection_costs_nothing(vendor: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is retried."""
    monkeypatch.setenv("OPENAI_URL", f"http://127.0.0.1:{free_port()}")

    drained = ask()

    assert drained.outcomes == {"failed": 1}
    assert [each["cost_micros"] for each in traces()] == [0]


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"choices": []}', b'{"error": "x"}', b"null", b"[" * 100_000])
def test_an_answer_without_a_completion_is_retried(vendor: Provider, body: bytes) -> None:
    """For example the error page of a proxy."""
    vendor.body = body

    drained = ask()

    assert drained.outcomes == {"failed": 1}
    assert "without a completion" in traces()[0]["error"]


@pytest.mark.parametrize("cut", [True, False])
def test_an_unrequested_stream_is_retried(boards: Boards, model: PlayedModel, cut: bool) -> None:
    """Complete or cut: no part of it is used."""
    boards.add(3, "Beans?")
    model.reply, model.streams, model.cut = lambda _asked: '{"text": "Peas?"}', True, cut

    drained = ask()

    assert model.asked[0].body["stream"] is False
    assert drained.outcomes == {"failed": 1}
    assert ("ProtocolError" if cut else "without a completion") in traces()[0]["error"]
    assert boards.written() == []


def test_missing_token_counts_cost_the_maximum(boards: Boards, model: PlayedModel) -> None:
    """Invalid ones too."""
    boards.add(3, "Beans?")
    model.reply, model.usage = lambda _asked: '{"text": "Peas?"}', {"prompt_tokens": None}

    drained = ask()

    assert drained.outcomes == {"done": 1}
    assert traces()[0]["cost_micros"] > 900


def test_a_key_is_never_shown(vendor: Provider) -> None:
    """Some servers quote the key that they refuse."""
    vendor.status, vendor.body = 401, f"no such key: {KEY}".encode()

    drained = ask()

    everything = f"{drained.runs} {rows('SELECT * FROM app_llm_calls')} {rows('SELECT last_error FROM mayfly_jobs')}"
    assert "no such key: …" in everything
    assert KEY not in everything


def test_without_a_key_jobs_are_cancelled(boards: Boards, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("ai_suggest_post", "ai_summarize_board"):
        enqueue(name, {"board": 3})
    enqueue("gpt_ai_cofac_nudging")

    drained = drain()

    assert drained.outcomes == {"cancelled": 3}
    assert {run.reason for run in drained.runs} == {"integration not configured: OPENAI_API_KEY"}


@pytest.mark.parametrize(
    ("name", "value"), [("OPENAI_CONTEXT", "100"), ("OPENAI_CONTEXT", "much"), ("OPENAI_SECONDS", "nan"),
                        ("OPENAI_URL", "ftp://x"), ("OPENAI_PRICES", "cheap"), ("NUDGE_AFTER_HOURS", "0")]
)  # fmt: skip
def test_an_invalid_setting_is_final(
    vendor: Provider, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """A retry would not change it."""
    monkeypatch.setenv(name, value)
    enqueue("gpt_ai_cofac_nudging") if name.startswith("NUDGE") else enqueue("ai_suggest_post", {"board": 3})

    drained = drain()

    assert drained.outcomes == {"dead": 1}
    assert "must be" in str(drained.runs[0].reason)
