"""Help boards on that went quiet: a round finds them, and each is asked about in a job of its own.

What people wrote may tell the model anything. All that can come of it is one text of NUDGE_LENGTH characters, plain
words, on this very board, once a day: which board, when and as whom is decided here and never by an answer.
"""

from datetime import timedelta
from typing import Any

from handlers.ai.answers import Nudge
from handlers.ai.asking import Model, Question, room_for
from handlers.ai.parts import newest_that_fit
from handlers.ai.prompts import NUDGE
from handlers.ai.tables import Quiet, claim_nudge, end_nudge, latest_posts, quiet_boards, title_of
from mayfly import Dead, Job, enqueue, setting

ANSWER_TOKENS = 400
FORGOTTEN = timedelta(days=14)  # of silence: over, and not quiet


def nudge_all(job: Job) -> dict[str, Any]:
    found = quiet_boards(job, _quiet())
    for board_id in found:
        enqueue("gpt_ai_cofac_nudging", {"board": board_id}, unique_key=f"nudge:{board_id}")
    return {"quiet": len(found)}


def nudge(job: Job, board_id: int) -> dict[str, Any]:
    day = claim_nudge(job, board_id, _quiet())
    if day is None:
        return {"board_id": board_id, "nudged": False}
    wish = _ask(job, board_id)
    is_ours = end_nudge(job, board_id, day, wish.text if wish.nudge else None)
    return {"board_id": board_id, "nudged": wish.nudge and is_ours}


def _ask(job: Job, board_id: int) -> Nudge:
    def question(posts: list[dict[str, Any]]) -> Question:
        return Question("nudge", board_id, NUDGE, {"board": title_of(job, board_id), "posts": posts}, ANSWER_TOKENS)

    posts = newest_that_fit(latest_posts(job, board_id), room_for(question([])))
    return Model(job).ask(question(posts), Nudge)


def _quiet() -> Quiet:
    hours = setting("NUDGE_AFTER_HOURS", "24")
    if not hours.isascii() or not hours.isdigit() or not 1 <= int(hours[:4]) <= 24 * FORGOTTEN.days:
        raise Dead(f"NUDGE_AFTER_HOURS must be a whole number from 1 to {24 * FORGOTTEN.days}")
    return Quiet(timedelta(hours=int(hours)), FORGOTTEN)
