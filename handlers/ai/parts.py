"""Cut a discussion into parts that fit into the model's context. Pure: posts in, what is shown of them out."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from handlers.ai.asking import as_json, size_of
from handlers.ai.tables import Post

COMMA = 1


class Cursor(NamedTuple):
    """Where the next part begins: with this post, from this character on."""

    id: int = 0
    offset: int = 0


class Part(NamedTuple):
    shown: list[dict[str, Any]]
    ended: int  # posts that it shows the end of
    next: Cursor


def first_part(posts: Sequence[Post], cursor: Cursor, room: int) -> Part:
    """As many posts as fit into so many bytes; of one that is larger than that, as much as fits."""
    shown: list[dict[str, Any]] = []
    left = room
    for post in posts:
        offset = cursor.offset if post.id == cursor.id else 0
        size = _size(post.shown())
        if size <= left:
            shown.append(post.shown())
            left -= size
            continue
        if shown:
            return Part(shown, len(shown), Cursor(post.id, offset))
        beginning = _fitting(post, room)
        return Part([post.shown(beginning)], 0, Cursor(post.id, offset + len(beginning)))
    return Part(shown, len(shown), Cursor(posts[-1].id + 1) if posts else cursor)


def newest_that_fit(posts: Iterable[Post], room: int) -> list[dict[str, Any]]:
    """Given with the newest first, shown with the oldest first."""
    shown: list[dict[str, Any]] = []
    for post in posts:
        room -= _size(post.shown())
        if room < 0:
            break
        shown.append(post.shown())
    return shown[::-1]


def _fitting(post: Post, room: int) -> str:
    """Some characters take six bytes in JSON, most one."""
    text = post.text
    while (size := _size(post.shown(text))) > room and len(text) > 1:
        text = text[: max(1, len(text) * room // size - 1)]
    return text


def _size(shown: dict[str, Any]) -> int:
    return size_of(as_json(shown)) + COMMA
