"""Draft a post for a board. A person reviews the draft before it is published."""

from typing import Any

from handlers.ai.answers import Suggestion
from handlers.ai.chunks import newest_that_fit
from handlers.ai.model import Model, Prompt, room_for
from handlers.ai.prompts import SUGGEST
from handlers.ai.tables import latest_posts, suggested_post, title_of, write_suggestion
from mayfly import Dead, Job

ANSWER_TOKENS = 1500


def suggest(job: Job, board_id: int, about: str) -> dict[str, Any]:
    post_id = suggested_post(job)
    if post_id is None:
        post_id = write_suggestion(job, board_id, _ask(job, board_id, about))
    return {"board_id": board_id, "post_id": post_id}


def _ask(job: Job, board_id: int, about: str) -> str:
    title = title_of(job, board_id)
    if title is None:
        raise Dead(f"there is no board {board_id}, or it is archived")

    def prompt(posts: list[dict[str, Any]]) -> Prompt:
        data = {"board": title, "about": about, "posts": posts}
        return Prompt("suggest", board_id, SUGGEST, data, ANSWER_TOKENS)

    posts = newest_that_fit(latest_posts(job, board_id), room_for(prompt([])))
    return Model(job).ask(prompt(posts), Suggestion).text
