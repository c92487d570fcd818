"""Summarize a board in chunks that fit into the context, then summarize the summaries. Each call is paid once."""

from typing import Any

from handlers.ai.answers import MAX_SUMMARY_LENGTH, Summary
from handlers.ai.chunks import ChunkPosition, first_chunk
from handlers.ai.model import Model, Prompt, as_json, room_for, size_of
from handlers.ai.prompts import FOLD, SUMMARIZE
from handlers.ai.tables import count_posts, posts_from, title_of, write_summary
from mayfly import Dead, Job

ANSWER_TOKENS = 1000
MAX_CHARACTER_BYTES = 4
MAX_SUMMARIES = 8  # fit into a checkpoint of 64 KiB, in any script


def summarize(job: Job, board_id: int) -> dict[str, Any]:
    title = title_of(job, board_id)
    if title is None:
        raise Dead(f"there is no board {board_id}, or it is archived")
    run = _SummaryRun(job, board_id, title)
    run.summarize_chunks()
    if run.posts:
        write_summary(job, board_id, run.folded(), run.posts)
    return {"board_id": board_id, "posts": run.posts}


class _SummaryRun:
    """Continues from the last checkpoint."""

    def __init__(self, job: Job, board_id: int, title: str) -> None:
        kept = job.state or {"position": ChunkPosition(), "summaries": [], "posts": 0}
        self._job, self._board_id = job, board_id
        self._position = ChunkPosition(*kept["position"])
        self._summaries: list[str] = kept["summaries"]
        self.posts: int = kept["posts"]
        self._title = title
        self._model = Model(job)
        self._room = room_for(self._prompt(SUMMARIZE, board=title, posts=[]))

    def summarize_chunks(self) -> None:
        total = count_posts(self._job, self._board_id)
        while True:
            posts = posts_from(self._job, self._board_id, *self._position, self._room)
            chunk = first_chunk(posts, self._position, self._room)
            if not chunk.shown:
                return
            self._add(self._ask(SUMMARIZE, board=self._title, posts=chunk.shown))
            self._position, self.posts = chunk.next, self.posts + chunk.completed
            self._keep()
            self._job.progress(self.posts, max(total, self.posts), "posts")

    def folded(self) -> str:
        """One summary of the whole board."""
        if len(self._summaries) > 1:
            self._fold()
            self._keep()
        return self._summaries[0]

    def _add(self, summary: str) -> None:
        """Merge earlier summaries into one before they exceed the context or the checkpoint."""
        next_size = MAX_SUMMARY_LENGTH * MAX_CHARACTER_BYTES + len('"",')
        if len(self._summaries) == MAX_SUMMARIES or size_of(as_json(self._summaries)) + 2 * next_size > self._room:
            self._fold()
        self._summaries.append(summary)

    def _fold(self) -> None:
        if len(self._summaries) > 1:
            self._summaries = [self._ask(FOLD, board=self._title, summaries=self._summaries)]

    def _keep(self) -> None:
        """Write a checkpoint after each call: a kill repeats at most the last call."""
        self._job.checkpoint({"position": self._position, "summaries": self._summaries, "posts": self.posts})

    def _ask(self, system: str, **data: Any) -> str:
        return self._model.ask(self._prompt(system, **data), Summary).summary

    def _prompt(self, system: str, **data: Any) -> Prompt:
        return Prompt("summarize", self._board_id, system, data, ANSWER_TOKENS)
