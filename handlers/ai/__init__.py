"""Texts by a language model: summaries of boards, drafts of posts, nudges for quiet boards."""

from typing import Any

from handlers.ai.budget import limits_of
from handlers.ai.payloads import BoardToSummarize, Nudging, PostToSuggest
from mayfly import Job, handler, setting

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs

REQUIRED = ("OPENAI_API_KEY",)
BUDGET = limits_of(setting("OPENAI_BUDGET", ""))


@handler("ai_summarize_board", lane="ai", ack="each", requires=REQUIRED, takes=BUDGET)
def ai_summarize_board(job: Job, board: BoardToSummarize) -> dict[str, Any]:
    from handlers.ai.summary import summarize

    return summarize(job, board.board)


@handler("ai_suggest_post", lane="ai", ack="each", requires=REQUIRED, takes=BUDGET)
def ai_suggest_post(job: Job, post: PostToSuggest) -> dict[str, Any]:
    from handlers.ai.suggestion import suggest

    return suggest(job, post.board, post.about)


@handler("gpt_ai_cofac_nudging", lane="ai", ack="each", requires=REQUIRED, takes=BUDGET)
def gpt_ai_cofac_nudging(job: Job, nudging: Nudging) -> dict[str, Any]:
    """Without a board it is the scheduled job, which finds quiet boards."""
    from handlers.ai.nudge import enqueue_nudges, nudge

    return enqueue_nudges(job) if nudging.board is None else nudge(job, nudging.board)
