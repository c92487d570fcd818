"""What the commands of control say: how many jobs there are, and why one does not go on."""

from collections.abc import Sequence
from typing import Any

from mayfly.jobs.operate import MOST_COUNTED
from mayfly.jobs.why import Reason, Row


def counted(number: int) -> str:
    return f"{MOST_COUNTED:,}+ jobs" if number > MOST_COUNTED else f"{number:,} jobs"


def explained(row: Row, reasons: Sequence[Reason]) -> str:
    told = (f"  {each.text}" for each in reasons)
    return "\n".join([f"Job {row.id} ({row.type}, lane {row.lane}) is {row.status}.", *told])


def explained_facts(row: Row, reasons: Sequence[Reason]) -> dict[str, Any]:
    told = [{"why": each.name, "text": each.text} for each in reasons]
    return {"id": row.id, "type": row.type, "lane": row.lane, "status": row.status, "reasons": told}
