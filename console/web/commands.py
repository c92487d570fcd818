"""The commands that do the same in a shell, to be copied. Pure."""

import shlex

from console.web.filters import JobFilter

OPTIONS = {"group": "--group", "lane": "--lane", "type": "--type", "status": "--status", "error": "--error"}


def command_for(verb: str, meant: JobFilter, until: str = "") -> str | None:
    """None for what the command line cannot say."""
    if meant.looks_inside or meant.since or meant.before or meant.ended:
        return None
    words = ["mayfly", verb, *meant.id.replace(",", " ").split()]
    for name, option in OPTIONS.items():
        value = getattr(meant, name)
        words += [option, value] if value else []
    return shlex.join([*words, "--until", until] if until else words)


def of_job(verb: str, job_id: int) -> str:
    return f"mayfly {verb} {job_id}"
