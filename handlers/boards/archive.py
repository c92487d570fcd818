"""Archive a closed board as a zip file with one JSON document. The file is renamed into place when complete."""

from pathlib import Path

from handlers.boards.closure import existing, notify_members
from handlers.boards.export import open_draft, pack, write_draft
from handlers.boards.tables import BoardRow, find_board, mark_archived
from mayfly import Dead, Job, setting


def archive(job: Job, board_id: int) -> dict[str, int | str]:
    board = _load(job, board_id)
    if board.state == "closed":
        archived = mark_archived(board_id, job.now, _export(job, board))
        job.write(lambda connection: connection.execute(archived))
        board = _load(job, board_id)
    if board.state != "archived" or board.archived_at is None:  # it may have been reopened in the meantime
        raise Dead(f"board {board_id} is {board.state}: only closed boards are archived")
    return {"archive": board.archive or "", **notify_members(job, board, "archived", board.archived_at)}


def _load(job: Job, board_id: int) -> BoardRow:
    return existing(job.read(lambda connection: find_board(connection, board_id)), board_id)


def _export(job: Job, board: BoardRow) -> str:
    """Write the file and return its name. Its bytes depend only on the board, not on the number of slices."""
    home = Path(setting("BOARD_ARCHIVES"))
    if not home.is_absolute():  # the working directory under cron is arbitrary
        raise Dead("BOARD_ARCHIVES must be an absolute path")
    home.mkdir(parents=True, exist_ok=True)
    target, draft = home / f"board-{board.id}.zip", home / f".board-{board.id}.json"
    with open_draft(draft) as file:
        write_draft(job, board, draft, file)
        pack(draft, target)
    return target.name
