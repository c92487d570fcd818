"""A closed board as a zip file with one JSON document, whatever its size: written aside, and renamed when whole."""

from pathlib import Path

from handlers.boards.closing import existing, follow_up
from handlers.boards.export import opened, pack, write_draft
from handlers.boards.tables import ARCHIVE, BoardRow, find_board
from mayfly import Dead, Job, setting


def archive(job: Job, board_id: int) -> dict[str, int | str]:
    board = _look(job, board_id)
    if board.state == "closed":
        name = _export(job, board)
        values = {"id": board_id, "now": job.now, "archive": name}
        job.write(lambda connection: connection.execute(ARCHIVE, values))
        board = _look(job, board_id)
    if board.state != "archived" or board.archived_at is None:  # perhaps it was opened again meanwhile
        raise Dead(f"board {board_id} is {board.state}: only closed boards are archived")
    return {"archive": board.archive or "", **follow_up(job, board, "archived", board.archived_at)}


def _look(job: Job, board_id: int) -> BoardRow:
    return existing(job.read(lambda connection: find_board(connection, board_id)), board_id)


def _export(job: Job, board: BoardRow) -> str:
    """The name of the file. Its bytes depend on the board alone, not on when or in how many pieces it was written."""
    home = Path(setting("BOARD_ARCHIVES"))
    if not home.is_absolute():  # cron starts anywhere
        raise Dead("BOARD_ARCHIVES must be an absolute path")
    home.mkdir(parents=True, exist_ok=True)
    target, draft = home / f"board-{board.id}.zip", home / f".board-{board.id}.json"
    with opened(draft) as file:
        write_draft(job, board, draft, file)
        pack(draft, target)
    return target.name
