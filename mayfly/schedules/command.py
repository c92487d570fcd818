"""The handler of type `command`, which every runner has: it costs nothing until there is such a job."""

from typing import Any

from mayfly.job import Job
from mayfly.queue.outcome import Dead, Retry
from mayfly.registry import Handler
from mayfly.schedules import COMMAND
from mayfly.schedules.next_due import schedule_files
from mayfly.settings import Settings


def command_handler(settings: Settings) -> Handler:
    def command(job: Job) -> dict[str, Any]:
        """Run what the schedule file says under the name that the job has; the row itself is never run."""
        from mayfly.schedules.files import read_schedules  # here, as run below: few runners ever need them
        from mayfly.schedules.run_command import run_command

        name = job.payload.get("schedule")
        schedules = read_schedules(schedule_files(settings), settings.home, settings.payload_limit)
        entry = schedules.get(name) if isinstance(name, str) else None
        if entry is not None and entry.command is not None:
            return run_command(entry, entry.command, settings.home)
        if schedules.problems:
            raise Retry(
                f"no command {name!r} in the schedule files, of which a part is refused: {schedules.problems[0]}"
            )
        raise Dead(f"no command {name!r} in the schedule files of this host: only what they name is run")

    return Handler(COMMAND, command, ack="each")
