"""Drafts of posts: one per job, plain text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from handlers.ai.answers import MAX_POST_LENGTH, Nudge, Suggestion
from handlers.ai.tables import write_suggestion
from mayfly import Job, MayflyError, enqueue, handler
from mayfly.testing import drain, run_inline
from tests.handlers.ai.boards import Boards, rows, run_again, traces
from tests.handlers.ai.models import PlayedModel
from tests.hypothesis_profiles import in_full

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def test_a_draft_is_stored_once(boards: Boards, model: PlayedModel) -> None:
    """`about` is sent as data; a repeated job finds its draft, and makes no call."""
    boards.add(3, "Beans?", "Peas!")
    model.reply = lambda _asked: '{"text": "What about a plan?\\nFor spring."}'

    enqueue("ai_suggest_post", {"board": 3, "about": "spring"})
    first = drain()
    run_again()
    again = drain()

    [asked] = model.asked
    assert asked.data["about"] == "spring"
    assert boards.written() == [(3, "draft", "What about a plan?\nFor spring.")]
    [post_id] = [row[0] for row in rows("SELECT id FROM app_posts WHERE state = 'draft'")]
    assert [each.runs[0].result for each in (first, again)] == [{"board_id": 3, "post_id": post_id}] * 2


@pytest.mark.every_database
def test_a_draft_is_written_once_however_often_it_is_tried(boards: Boards) -> None:
    """As after a COMMIT whose reply was lost. On every database."""

    @handler("writer")
    def writer(job: Job) -> list[int]:
        return [write_suggestion(job, 3, "Peas?") for _ in range(2)]

    enqueue("writer")
    [first, second] = drain().runs[0].result

    assert first == second
    assert boards.written() == [(3, "draft", "Peas?")]


@SQLITE
def test_an_invalid_answer_is_requested_again_once(boards: Boards, model: PlayedModel) -> None:
    """With the reason, without quoting the invalid answer as an instruction."""
    boards.add(3, "Beans?")
    answers = iter(['{"text": "x", "evil": "obey"}', '{"text": "Peas?"}'])
    model.reply = lambda _asked: next(answers)

    enqueue("ai_suggest_post", {"board": 3})
    drained = drain()

    assert drained.outcomes == {"done": 1}
    assert [len(asked.body["messages"]) for asked in model.asked] == [2, 3]
    assert "extra_forbidden" in model.asked[1].body["messages"][2]["content"]
    assert "evil" not in json.dumps(model.asked[1].body)
    assert [each["state"] for each in traces()] == ["done", "done"]


@SQLITE
@pytest.mark.parametrize(
    "answer",
    ["", "no JSON", "[]", '{"text": 7}', '{"text": ""}', '{"text": "x"', "```json\n{}\n```", "[" * 100_000,
     json.dumps({"text": "x" * (MAX_POST_LENGTH + 1)})],
)  # fmt: skip
def test_an_answer_that_is_invalid_twice_is_final(boards: Boards, model: PlayedModel, answer: str) -> None:
    """Both calls are in the ledger, and nothing is posted."""
    boards.add(3, "Beans?")
    model.reply = lambda _asked: answer

    enqueue("ai_suggest_post", {"board": 3})
    drained = drain()

    assert drained.outcomes == {"dead": 1}
    assert "was invalid twice" in str(drained.runs[0].reason)
    assert (len(model.asked), len(traces()), boards.written()) == (2, 2, [])


@pytest.mark.every_database
def test_an_answer_with_nul_is_stored(boards: Boards, model: PlayedModel) -> None:
    """PostgreSQL stores no NUL."""
    boards.add(3, "Beans?")
    model.reply = lambda _asked: '{"text": "a\0b"}\0'

    enqueue("ai_suggest_post", {"board": 3})
    drained = drain()

    assert drained.outcomes == {"dead": 1}
    assert [each["answer"] for each in traces()] == ['{"text": "a�b"}�'] * 2


@pytest.mark.parametrize(
    "text",
    ["see https://evil.example", "see www.evil.example", "evil.example", "ask @ann", "a@b.example", "<b>hi</b>",
     "[x](y)", "ｅｖｉｌ．ｃｏｍ", "zero\u200bwidth", "turn\u202eed", "bell\a", " ", "＠ann"],
)  # fmt: skip
def test_links_mentions_and_markup_are_refused(text: str) -> None:
    """Invisible characters too."""
    for shape in (Suggestion, Nudge):
        fields = {"text": text} if shape is Suggestion else {"text": text, "nudge": True}
        with pytest.raises(ValidationError):
            shape.model_validate_json(json.dumps(fields))


@pytest.mark.parametrize("text", ["Wirklich? Ja: 3.14 (etwa), e.g. Bohnen… 🌱", "日本語、どうですか。", "One. Two."])
def test_plain_text_is_accepted(text: str) -> None:
    """In any language."""
    assert Suggestion.model_validate_json(json.dumps({"text": text})).text == text


TYPES = ("ai_summarize_board", "ai_suggest_post", "gpt_ai_cofac_nudging")
PAYLOADS = st.dictionaries(
    st.sampled_from(["board", "about", "x"]),
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False),
)


@SQLITE
@in_full(50)
@given(type_name=st.sampled_from(TYPES), payload=PAYLOADS)
def test_any_payload_is_refused_or_handled(
    boards: Boards, model: PlayedModel, type_name: str, payload: dict[str, Any]
) -> None:
    """Never an unexpected error."""
    try:
        run = run_inline(type_name, payload)
    except MayflyError:
        return

    assert run.kind in ("done", "dead")
