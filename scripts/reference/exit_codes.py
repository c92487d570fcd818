"""docs/reference/exit-codes.md."""

from mayfly.process import exits
from scripts.reference.markdown import GENERATED, table

PROGRAMS = ("dispatcher", "runner", "mayfly")
MEANINGS = {
    exits.SUCCESS: (
        "idle, or every runner exited with 0; also a cycle that was skipped because the last one holds the lock",
        "the lane is drained, or its time is up and a backlog remains; started manually, also without a free slot",
        "done",
    ),
    exits.ERROR: (
        "the cycle failed, a runner exited with 1 or was killed by a signal, or a line of a schedule file is invalid",
        "error: database, handler module, crash",
        "error: database, or nothing matches; `status` and `doctor`: degraded; an aborted question",
    ),
    exits.TIMEOUT: (
        "a runner timed out, or DISPATCH_TIMEOUT was exceeded",
        "a job was interrupted at the end of the runner's time after it had run for at least 1 s",
        "`status`: no host has started a cycle for three minutes",
    ),
    exits.USAGE: ("invalid options or settings",) * len(PROGRAMS),
}


def page(_current: str) -> str:
    return f"# Exit codes\n\n{GENERATED}" + "".join(map(_chapter, range(len(PROGRAMS))))


def _chapter(column: int) -> str:
    codes = sorted({value for name, value in vars(exits).items() if name.isupper() and type(value) is int})
    rows = [(f"`{code}`", MEANINGS[code][column]) for code in codes]
    return f"\n## {PROGRAMS[column]}\n\n{table(('code', 'meaning'), rows)}"
