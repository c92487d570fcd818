"""Nudge quiet boards: a scheduled job finds them, and one job per board asks the model whether and what to post.

Posts may contain instructions to the model. They can cause at most one text of MAX_NUDGE_LENGTH characters without
links, on this board, once a day: this code decides board, time and author, never the model.
"""

from datetime import timedelta
from typing import Any

from handlers.ai.answers import Nudge
from handlers.ai.chunks import newest_that_fit
from handlers.ai.model import Model, Prompt, room_for
from handlers.ai.prompts import NUDGE
from handlers.ai.tables import QuietPeriod, claim_nudge, end_nudge, latest_posts, quiet_boards, title_of
from mayfly import Dead, Job, enqueue, setting

ANSWER_TOKENS = 400
MAX_SILENCE = timedelta(days=14)  # after that a board counts as finished


def enqueue_nudges(job: Job) -> dict[str, Any]:
    found = quiet_boards(job, _quiet_period())
    for board_id in found:
        enqueue("gpt_ai_cofac_nudging", {"board": board_id}, unique_key=f"nudge:{board_id}")
    return {"quiet": len(found)}


def nudge(job: Job, board_id: int) -> dict[str, Any]:
    day = claim_nudge(job, board_id, _quiet_period())
    if day is None:
        return {"board_id": board_id, "nudged": False}
    answer = _ask(job, board_id)
    is_ours = end_nudge(job, board_id, day, answer.text if answer.nudge else None)
    return {"board_id": board_id, "nudged": answer.nudge and is_ours}


def _ask(job: Job, board_id: int) -> Nudge:
    def prompt(posts: list[dict[str, Any]]) -> Prompt:
        return Prompt("nudge", board_id, NUDGE, {"board": title_of(job, board_id), "posts": posts}, ANSWER_TOKENS)

    posts = newest_that_fit(latest_posts(job, board_id), room_for(prompt([])))
    return Model(job).ask(prompt(posts), Nudge)


def _quiet_period() -> QuietPeriod:
    hours = setting("NUDGE_AFTER_HOURS", "24")
    if not hours.isascii() or not hours.isdigit() or not 1 <= int(hours[:4]) <= 24 * MAX_SILENCE.days:
        raise Dead(f"NUDGE_AFTER_HOURS must be an integer, 1–{24 * MAX_SILENCE.days}")
    return QuietPeriod(timedelta(hours=int(hours)), MAX_SILENCE)
