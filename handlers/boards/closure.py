"""Close a board and email each member once. Archiving emails them as well."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from handlers.boards.tables import BoardMember, BoardRow, find_board, mark_closed, members_after
from handlers.mail.bulk import LANE, LOW_PRIORITY, UnsubscribeLinks
from handlers.mail.payloads import is_address
from handlers.payloads import DEFAULT_TENANT
from handlers.suppressions import canonical, suppressed
from mayfly import Dead, Job, enqueue_many

PAGE_SIZE = 500


def close(job: Job, board_id: int) -> dict[str, int]:
    """Idempotent: a repeated run completes what a killed run has begun."""
    board = job.write(lambda connection: _close(connection, board_id, job.now))
    if board.closed_at is None or board.state == "archived":
        return {"mailed": 0, "suppressed": 0}
    return notify_members(job, board, "closed", board.closed_at)


def _close(connection: Connection, board_id: int, now: datetime) -> BoardRow:
    connection.execute(mark_closed(board_id, now))
    return existing(find_board(connection, board_id), board_id)


def existing(board: BoardRow | None, board_id: int) -> BoardRow:
    if board is None:
        raise Dead(f"there is no board {board_id}")
    return board


def notify_members(job: Job, board: BoardRow, event: str, at: datetime) -> dict[str, int]:
    """In slices: a large board takes longer than one minute."""
    links = UnsubscribeLinks()
    state = {"after": 0, "mailed": 0, "suppressed": 0, **(job.state or {})}
    while members := members_after(job, board.id, state["after"], PAGE_SIZE):
        reachable = [each for each in members if each.joined_at <= at and is_address(each.email)]
        stopped = suppressed(job, DEFAULT_TENANT, [canonical(each.email) for each in reachable])
        wanted = [each for each in reachable if canonical(each.email) not in stopped]
        enqueue_many(_message(board, event, at, each, links.link_for(each.email)) for each in wanted)
        skipped = state["suppressed"] + len(reachable) - len(wanted)
        state |= {"after": members[-1].id, "mailed": state["mailed"] + len(wanted), "suppressed": skipped}
        job.checkpoint(state)  # committed together with the emails
    return {"mailed": state["mailed"], "suppressed": state["suppressed"]}


def _message(board: BoardRow, event: str, at: datetime, member: BoardMember, link: str) -> dict[str, Any]:
    """The key of one effect per member and event; closing a reopened board is another event."""
    key = f"board:{board.id}:{event}:{at:%Y%m%dT%H%M%S.%f}:{member.id}"
    title = as_line(board.title)
    news = f"the board “{title}” was {event} on {at:%d %B %Y}."
    text = f"Dear {as_line(member.name)},\n\n{news}\n\nUnsubscribe: {link}\n"
    mail = {
        "to": member.email, "subject": f"The board “{title}” was {event}", "text": text, "key": key,
        "unsubscribe": link,
    }  # fmt: skip
    return {"type": "send_email", "lane": LANE, "priority": LOW_PRIORITY, "payload": mail, "unique_key": key}


def as_line(text: str) -> str:
    """Sanitize user input for a header."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable())
