"""What a language model writes for boards: summaries, drafts, and a nudge for those that went quiet."""

from typing import Any

from handlers.ai.budget import limits_of
from handlers.ai.payloads import BoardToSummarize, Nudging, PostToSuggest
from mayfly import Job, handler, setting

__handlers__ = ()  # all are here; what they need is imported by who asks

NEEDS = ("OPENAI_API_KEY",)
BUDGET = limits_of(setting("OPENAI_BUDGET", ""))


@handler("ai_summarize_board", lane="ai", ack="each", requires=NEEDS, takes=BUDGET)
def ai_summarize_board(job: Job, board: BoardToSummarize) -> dict[str, Any]:
    from handlers.ai.summarizing import summarize  # as below: HTTP and JSON, for runners that ask

    return summarize(job, board.board)


@handler("ai_suggest_post", lane="ai", ack="each", requires=NEEDS, takes=BUDGET)
def ai_suggest_post(job: Job, post: PostToSuggest) -> dict[str, Any]:
    from handlers.ai.suggesting import suggest

    return suggest(job, post.board, post.about)


@handler("gpt_ai_cofac_nudging", lane="ai", ack="each", requires=NEEDS, takes=BUDGET)
def gpt_ai_cofac_nudging(job: Job, nudging: Nudging) -> dict[str, Any]:
    """Without a board it is the round that finds them."""
    from handlers.ai.nudging import nudge, nudge_all

    return nudge_all(job) if nudging.board is None else nudge(job, nudging.board)
