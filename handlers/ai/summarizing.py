"""Summarise a board in parts that fit into the context, then the summaries of the parts; each is paid for once."""

from typing import Any

from handlers.ai.answers import SUMMARY_LENGTH, Summary
from handlers.ai.asking import Model, Question, as_json, room_for, size_of
from handlers.ai.parts import Cursor, first_part
from handlers.ai.prompts import FOLD, SUMMARIZE
from handlers.ai.tables import count_posts, posts_from, title_of, write_summary
from mayfly import Dead, Job

ANSWER_TOKENS = 1000
WIDEST = 4  # bytes of a character
MOST_PARTS = 8  # kept in a checkpoint of 64 KiB, in any script


def summarize(job: Job, board_id: int) -> dict[str, Any]:
    title = title_of(job, board_id)
    if title is None:
        raise Dead(f"there is no board {board_id}, or it is archived")
    run = _Run(job, board_id, title)
    run.read_on()
    if run.posts:
        write_summary(job, board_id, run.folded(), run.posts)
    return {"board_id": board_id, "posts": run.posts}


class _Run:
    """From where the last checkpoint says."""

    def __init__(self, job: Job, board_id: int, title: str) -> None:
        kept = job.state or {"cursor": Cursor(), "parts": [], "posts": 0}
        self._job, self._board_id = job, board_id
        self._cursor = Cursor(*kept["cursor"])
        self._parts: list[str] = kept["parts"]
        self.posts: int = kept["posts"]
        self._title = title
        self._model = Model(job)
        self._room = room_for(self._question(SUMMARIZE, board=title, posts=[]))

    def read_on(self) -> None:
        total = count_posts(self._job, self._board_id)
        while True:
            posts = posts_from(self._job, self._board_id, *self._cursor, self._room)
            part = first_part(posts, self._cursor, self._room)
            if not part.shown:
                return
            self._add(self._ask(SUMMARIZE, board=self._title, posts=part.shown))
            self._cursor, self.posts = part.next, self.posts + part.ended
            self._keep()
            self._job.progress(self.posts, max(total, self.posts), "posts")

    def folded(self) -> str:
        """One summary of all; where the board fits into one part that is it."""
        if len(self._parts) > 1:
            self._fold()
            self._keep()
        return self._parts[0]

    def _add(self, summary: str) -> None:
        """Those of earlier parts are made one before they outgrow the context, or the checkpoint."""
        next_size = SUMMARY_LENGTH * WIDEST + len('"",')
        if len(self._parts) == MOST_PARTS or size_of(as_json(self._parts)) + 2 * next_size > self._room:
            self._fold()
        self._parts.append(summary)

    def _fold(self) -> None:
        if len(self._parts) > 1:
            self._parts = [self._ask(FOLD, board=self._title, summaries=self._parts)]

    def _keep(self) -> None:
        """What is paid for is kept before more is asked: a kill repeats the last call at most."""
        self._job.checkpoint({"cursor": self._cursor, "parts": self._parts, "posts": self.posts})

    def _ask(self, system: str, **data: Any) -> str:
        return self._model.ask(self._question(system, **data), Summary).summary

    def _question(self, system: str, **data: Any) -> Question:
        return Question("summarize", self._board_id, system, data, ANSWER_TOKENS)
