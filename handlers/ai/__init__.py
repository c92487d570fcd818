"""Texts written by a language model: summaries of boards, drafts of posts, nudges for quiet boards."""

from functools import partial
from typing import Any

from handlers.ai.budget import limits_of
from handlers.ai.payloads import BoardToSummarize, Nudging, PostToSuggest
from handlers.outages import SURVIVES_OUTAGE
from mayfly import Job, handler, setting

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs

REQUIRED = ("OPENAI_API_KEY",)
BUDGET = limits_of(setting("OPENAI_BUDGET", ""))
calls_model = partial(handler, ack="each", requires=REQUIRED, takes=BUDGET, **SURVIVES_OUTAGE)


@calls_model("ai_summarize_board", lane="ai_summarize_board")
def ai_summarize_board(job: Job, board: BoardToSummarize) -> dict[str, Any]:
    from handlers.ai.summary import summarize

    return summarize(job, board.board)


@calls_model("ai_suggest_post", lane="ai_summarize_board")
def ai_suggest_post(job: Job, post: PostToSuggest) -> dict[str, Any]:
    from handlers.ai.suggestion import suggest

    return suggest(job, post.board, post.about)


@calls_model("gpt_ai_cofac_nudging", lane="gpt_ai_cofac_nudging")
def gpt_ai_cofac_nudging(job: Job, nudging: Nudging) -> dict[str, Any]:
    """Nudge one board; without a board, find quiet boards (the scheduled job)."""
    from handlers.ai.nudge import enqueue_nudges, nudge

    return enqueue_nudges(job) if nudging.board is None else nudge(job, nudging.board)
