"""docs/reference/exit-codes.md."""

from mayfly.process import exits
from scripts.reference.markdown import GENERATED, table

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
    exits.USAGE: ("invalid options or settings", "the same", "the same"),
}


def page(_current: str) -> str:
    codes = {value for name, value in vars(exits).items() if name.isupper() and type(value) is int}
    rows = [(f"`{code}`", *MEANINGS[code]) for code in sorted(codes)]
    return f"# Exit codes\n\n{GENERATED}\n{table(('code', 'dispatcher', 'runner', '`mayfly …`'), rows)}"
