"""Summaries of boards: in one call, or in chunks that are paid once each."""

import json

import pytest

from mayfly import enqueue
from mayfly.testing import drain
from tests.handlers.ai.boards import Boards, rows, traces
from tests.handlers.ai.conftest import KEY
from tests.handlers.ai.models import Asked, PlayedModel

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def numbered(model: PlayedModel) -> None:
    """Each answer names its input: the number of posts, or which summaries."""

    def reply(asked: Asked) -> str:
        made_of = asked.data.get("summaries") or f"{len(asked.data['posts'])} posts"
        return json.dumps({"summary": f"{len(model.asked)}: {made_of}"[:1200]})

    model.reply = reply


@pytest.mark.every_database
def test_a_board_is_summarised(boards: Boards, model: PlayedModel) -> None:
    """Published posts only, without names. On every database."""
    boards.add(3, "Shall we plant beans?", "Peas!", title="Garden")
    boards.post(3, "secret draft", state="draft")
    boards.add(4, "Elsewhere")
    model.reply = lambda _asked: '{"summary": "They plan a garden."}'

    enqueue("ai_summarize_board", {"board": 3})
    drained = drain()

    [asked] = model.asked
    assert drained.outcomes == {"done": 1}
    assert (asked.path, asked.key) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert asked.data["board"] == "Garden"
    assert [each["text"] for each in asked.data["posts"]] == ["Shall we plant beans?", "Peas!"]
    assert {each["author"] for each in asked.data["posts"]} == {"person 7"}
    assert rows("SELECT board_id, summary, posts FROM app_board_summaries") == [(3, "They plan a garden.", 2)]
    assert traces() == [
        {
            "purpose": "summarize", "board_id": 3, "state": "done", "answer": '{"summary": "They plan a garden."}',
            "error": None, "input_tokens": 1000, "output_tokens": 100, "cost_micros": 210,
        }
    ]  # fmt: skip


@pytest.fixture
def long_board(boards: Boards, model: PlayedModel, monkeypatch: pytest.MonkeyPatch) -> int:
    """Four chunks at the smallest context, with a post of more than two chunks."""
    monkeypatch.setenv("OPENAI_CONTEXT", "16000")
    numbered(model)
    return boards.add(3, *(["words " * 200] * 8), "long " * 6000, *(["ß" * 1000] * 2))


def test_a_long_board_is_summarised_in_chunks(long_board: int, model: PlayedModel) -> None:
    """Every word is sent once, in order, within the context; then the summaries are summarized."""
    enqueue("ai_summarize_board", {"board": long_board})
    drained = drain()

    parts, fold = model.asked[:-1], model.asked[-1]
    shown = "".join(each["text"] for asked in parts for each in asked.data["posts"])
    sizes = [sum(len(each["content"].encode()) for each in asked.body["messages"]) for asked in model.asked]
    assert drained.outcomes == {"done": 1}
    assert len(parts) == 4
    assert shown == "words " * 1600 + "long " * 6000 + "ß" * 2000
    assert max(sizes) + 1000 <= 16_000
    assert [each[:2] for each in fold.data["summaries"]] == ["1:", "2:", "3:", "4:"]
    assert rows("SELECT posts FROM app_board_summaries") == [(11,)]


def test_a_chunk_is_not_requested_twice(long_board: int, model: PlayedModel) -> None:
    """Runs that end at each checkpoint make together the calls of one run."""
    enqueue("ai_summarize_board", {"board": long_board})
    drained = drain(slice_after=1)

    assert drained.outcomes == {"sliced": 5, "done": 1}
    assert len(model.asked) == 5
    assert rows("SELECT posts FROM app_board_summaries") == [(11,)]


@SQLITE
def test_summaries_are_folded_before_they_exceed_the_context(
    boards: Boards, model: PlayedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No prompt is longer than the context, for boards of any length."""
    monkeypatch.setenv("OPENAI_CONTEXT", "16000")
    boards.add(3, *(["x" * 13_000] * 7))
    model.reply = lambda _asked: json.dumps({"summary": "€" * 1500})

    enqueue("ai_summarize_board", {"board": 3})
    drained = drain()

    sizes = [sum(len(each["content"].encode()) for each in asked.body["messages"]) for asked in model.asked]
    assert drained.outcomes == {"done": 1}
    assert max(sizes) + 1000 <= 16_000
    assert sum("summaries" in asked.data for asked in model.asked) >= 3


@SQLITE
def test_a_board_without_posts_costs_nothing(boards: Boards, model: PlayedModel) -> None:
    """A missing board is an error."""
    boards.add(3)
    enqueue("ai_summarize_board", {"board": 3})
    enqueue("ai_summarize_board", {"board": 99})

    drained = drain()

    assert drained.outcomes == {"done": 1, "dead": 1}
    assert drained.runs[1].reason == "there is no board 99, or it is archived"
    assert model.asked == []
