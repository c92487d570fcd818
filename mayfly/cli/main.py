"""The command `mayfly`: a table of verbs. Each verb is a function whose module is imported only when it is used."""

from importlib import import_module

import click

from mayfly import __version__
from mayfly.format import did_you_mean
from mayfly.process import exits

VERBS = {
    "audit": "mayfly.cli.fleet:audit",
    "batches": "mayfly.cli.batches:batches",
    "cancel": "mayfly.cli.jobs:cancel",
    "completion": "mayfly.cli.setup:completion",
    "config": "mayfly.cli.setup:config",
    "cycles": "mayfly.cli.fleet:cycles",
    "dead": "mayfly.cli.jobs:dead",
    "delay": "mayfly.cli.jobs:delay",
    "dev": "mayfly.cli.setup:dev",
    "discard": "mayfly.cli.jobs:discard",
    "doctor": "mayfly.cli.doctor:doctor",
    "enqueue": "mayfly.cli.enqueue:enqueue",
    "interrupt": "mayfly.cli.fleet:interrupt",
    "jobs": "mayfly.cli.jobs:jobs",
    "lanes": "mayfly.cli.lanes:lanes",
    "limits": "mayfly.cli.batches:limits",
    "man": "mayfly.cli.setup:man",
    "metrics": "mayfly.cli.fleet:metrics",
    "migrate": "mayfly.cli.setup:migrate",
    "password": "mayfly.cli.tokens:password",
    "pause": "mayfly.cli.lanes:pause",
    "pauses": "mayfly.cli.lanes:pauses",
    "prune": "mayfly.cli.fleet:prune",
    "resume": "mayfly.cli.lanes:resume",
    "retry": "mayfly.cli.jobs:retry",
    "runners": "mayfly.cli.fleet:runners",
    "schedules": "mayfly.cli.schedules:schedules",
    "show": "mayfly.cli.jobs:show",
    "status": "mayfly.cli.fleet:status",
    "token": "mayfly.cli.tokens:token",
    "top": "mayfly.cli.fleet:top",
    "why": "mayfly.cli.jobs:why",
}


class LazyGroup(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module, _, function = VERBS[name].partition(":")
        command = getattr(import_module(module), function)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """click itself suggests only commands that are already imported."""
        verb = args[0]
        if verb not in VERBS and not context.resilient_parsing and (hint := did_you_mean(verb, VERBS)):
            context.fail(f"No such command {verb!r}.{hint}")
        return super().resolve_command(context, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mayfly")
def mayfly() -> None:
    """Background jobs that live for less than a minute.

    Cron runs `python -m dispatcher` every minute; this command is for operators and developers.
    """


def main() -> None:
    exits.run_command(mayfly, "mayfly")
