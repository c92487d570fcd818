"""Split a discussion into chunks that fit into the model's context. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from handlers.ai.model import as_json, size_of
from handlers.ai.tables import PostExcerpt

COMMA_BYTES = 1


class ChunkPosition(NamedTuple):
    """Where the next chunk begins: at this character of this post."""

    id: int = 0
    offset: int = 0


class Chunk(NamedTuple):
    shown: list[dict[str, Any]]
    completed: int  # posts that end in this chunk
    next: ChunkPosition


def first_chunk(posts: Sequence[PostExcerpt], start: ChunkPosition, room: int) -> Chunk:
    """Return as many posts as fit into `room` bytes; a larger post is cut."""
    shown: list[dict[str, Any]] = []
    left = room
    for post in posts:
        offset = start.offset if post.id == start.id else 0
        size = _size(post.shown())
        if size <= left:
            shown.append(post.shown())
            left -= size
            continue
        if shown:
            return Chunk(shown, len(shown), ChunkPosition(post.id, offset))
        beginning = _fitting(post, room)
        return Chunk([post.shown(beginning)], 0, ChunkPosition(post.id, offset + len(beginning)))
    return Chunk(shown, len(shown), ChunkPosition(posts[-1].id + 1) if posts else start)


def newest_that_fit(posts: Iterable[PostExcerpt], room: int) -> list[dict[str, Any]]:
    """Take posts newest first, and return those that fit oldest first."""
    shown: list[dict[str, Any]] = []
    for post in posts:
        room -= _size(post.shown())
        if room < 0:
            break
        shown.append(post.shown())
    return shown[::-1]


def _fitting(post: PostExcerpt, room: int) -> str:
    """A character takes one to six bytes in JSON."""
    text = post.text
    while (size := _size(post.shown(text))) > room and len(text) > 1:
        text = text[: max(1, len(text) * room // size - 1)]
    return text


def _size(shown: dict[str, Any]) -> int:
    return size_of(as_json(shown)) + COMMA_BYTES
