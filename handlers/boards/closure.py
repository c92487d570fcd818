"""Close a board: cancel its reminders and mail each member once. Archiving does the latter two as well."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from handlers.boards.tables import BoardMember, BoardRow, find_board, mark_closed, members_after
from handlers.mail.payloads import is_address
from mayfly import Dead, Job, cancel, enqueue_many

PAGE_SIZE = 500


def close(job: Job, board_id: int) -> dict[str, int]:
    """Idempotent: a repeated run does what a killed run has left undone."""
    board = job.write(lambda connection: _close(connection, board_id, job.now))
    if board.closed_at is None or board.state == "archived":
        return {"mailed": 0, "reminders": 0}
    return notify_members(job, board, "closed", board.closed_at)


def _close(connection: Connection, board_id: int, now: datetime) -> BoardRow:
    connection.execute(mark_closed(board_id, now))
    return existing(find_board(connection, board_id), board_id)


def existing(board: BoardRow | None, board_id: int) -> BoardRow:
    if board is None:
        raise Dead(f"there is no board {board_id}")
    return board


def reminders_key(board_id: int) -> str:
    """The group key of all reminder jobs of this board."""
    return f"board:{board_id}:reminders"


def notify_members(job: Job, board: BoardRow, event: str, at: datetime) -> dict[str, int]:
    """In slices: a large board takes longer than one minute."""
    state = job.state or {}
    if "after" not in state:
        found = cancel(group_key=reminders_key(board.id), reason=f"board {board.id} was {event}")
        state = {"after": 0, "mailed": 0, "reminders": found.ended + found.told}
    while members := members_after(job, board.id, state["after"], PAGE_SIZE):
        reachable = [each for each in members if each.joined_at <= at and is_address(each.email)]
        enqueue_many(_message(board, event, at, each) for each in reachable)
        state = {**state, "after": members[-1].id, "mailed": state["mailed"] + len(reachable)}
        job.checkpoint(state)  # committed together with the mails
    return {"mailed": state["mailed"], "reminders": state["reminders"]}


def _message(board: BoardRow, event: str, at: datetime, member: BoardMember) -> dict[str, Any]:
    """One effect per member and event; closing a reopened board is another event."""
    key = f"board:{board.id}:{event}:{at:%Y%m%dT%H%M%S.%f}:{member.id}"
    title = as_line(board.title)
    text = f"Dear {as_line(member.name)},\n\nthe board “{title}” was {event} on {at:%d %B %Y}.\n"
    mail = {"to": member.email, "subject": f"The board “{title}” was {event}", "text": text, "key": key}
    return {"type": "send_email", "payload": mail, "unique_key": key}


def as_line(text: str) -> str:
    """User input made fit for a header."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable())
