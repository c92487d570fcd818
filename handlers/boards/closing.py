"""What follows when a board is closed or archived: its reminders end, and its members are told, each once."""

from datetime import datetime
from typing import Any

from handlers.boards.tables import CLOSE, BoardRow, Member, find_board, members_after
from handlers.mail.payloads import is_address
from mayfly import Dead, Job, cancel, enqueue_many

PAGE = 500


def close(job: Job, board_id: int) -> dict[str, int]:
    """Doing it again goes through all of it once more, so that whatever a killed run has left undone is done."""
    board = job.write(lambda connection: _close(connection, board_id, job.now))
    if board.closed_at is None or board.state == "archived":
        return {"told": 0, "reminders": 0}
    return follow_up(job, board, "closed", board.closed_at)


def _close(connection: Any, board_id: int, now: datetime) -> BoardRow:
    connection.execute(CLOSE, {"id": board_id, "now": now})
    return existing(find_board(connection, board_id), board_id)


def existing(board: BoardRow | None, board_id: int) -> BoardRow:
    if board is None:
        raise Dead(f"there is no board {board_id}")
    return board


def reminders_key(board_id: int) -> str:
    """The group of all jobs that remind somebody of something on this board."""
    return f"board:{board_id}:reminders"


def follow_up(job: Job, board: BoardRow, event: str, at: datetime) -> dict[str, int]:
    """In slices: a board may have more members than a minute has time for."""
    state = job.state or {}
    if "after" not in state:
        found = cancel(group_key=reminders_key(board.id), reason=f"board {board.id} was {event}")
        state = {"after": 0, "told": 0, "reminders": found.ended + found.told}
    while members := members_after(job, board.id, state["after"], PAGE):
        reachable = [each for each in members if each.joined_at <= at and is_address(each.email)]
        enqueue_many(_message(board, event, at, each) for each in reachable)
        state = {**state, "after": members[-1].id, "told": state["told"] + len(reachable)}
        job.checkpoint(state)  # the mails are enqueued with it, or neither is
    return {"told": state["told"], "reminders": state["reminders"]}


def _message(board: BoardRow, event: str, at: datetime, member: Member) -> dict[str, Any]:
    """One effect a member and event; a board that was opened again and closed again is another one."""
    key = f"board:{board.id}:{event}:{at:%Y%m%dT%H%M%S.%f}:{member.id}"
    title = as_line(board.title)
    text = f"Dear {as_line(member.name)},\n\nthe board “{title}” was {event} on {at:%d %B %Y}.\n"
    mail = {"to": member.email, "subject": f"The board “{title}” was {event}", "text": text, "key": key}
    return {"type": "send_email", "payload": mail, "unique_key": key}


def as_line(text: str) -> str:
    """What somebody has typed, for a header: the rest of the mail does not hang on it."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable())
