"""The command `mayfly`: its verbs by module. The module of a verb is imported only when it is used."""

from importlib import import_module

import click

from mayfly import __version__
from mayfly.errors import BadCommand, MayflyError
from mayfly.format import did_you_mean
from mayfly.process import exits
from mayfly.process.programs import PROGRAMS, import_own

MODULES = {
    "cron": "cron",
    "doctor": "doctor",
    "enqueue": "enqueue",
    "fleet": "audit cycles hosts interrupt metrics prune runners status",
    "jobs": "batches cancel dead delay discard jobs retry show why",
    "lanes": "lanes limits pause pauses resume",
    "schedules": "schedules",
    "sources": "sources",
    "setup": "completion config dev man migrate password token",
    "top": "top",
}
VERBS = {verb: f"mayfly.cli.{module}" for module, verbs in MODULES.items() for verb in verbs.split()}
VERBS |= {verb: program.command for verb, program in PROGRAMS.items()}  # for help; __main__ starts them


class LazyGroup(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted({*VERBS, *_contributed()})

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name in VERBS:
            return _own_command(name)
        module = _contributed().get(name)
        return None if module is None else _contributed_command(name, module)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Adds a suggestion: click itself suggests only commands that are already imported."""
        verb = args[0]
        if verb not in VERBS and not context.resilient_parsing:
            known = {**VERBS, **_contributed(raises=True)}
            if verb not in known and (hint := did_you_mean(verb, known)):
                context.fail(f"No such command {verb!r}.{hint}")
        return super().resolve_command(context, args)


def _own_command(name: str) -> click.Command:
    if name in PROGRAMS:
        import_own(PROGRAMS[name].package)
    command = getattr(import_module(VERBS[name]), "command" if name in PROGRAMS else name)
    assert isinstance(command, click.Command)
    command.name = name
    return command


def _contributed(raises: bool = False) -> dict[str, str]:
    """The verbs of modules of HANDLERS. An installation with an error has a help, too."""
    from mayfly.client import current_app  # slow to import, and Mayfly's own verbs do not need the handlers
    from mayfly.registry import contributed_commands

    try:
        registry = current_app().registry
        found = contributed_commands(registry)
        for verb in VERBS.keys() & found:
            raise BadCommand(verb, found[verb], "has the name of a command of Mayfly: rename it")
    except MayflyError:
        if raises:
            raise
        return {}
    for module, reason in registry.failures.items() if raises else ():
        click.echo(f"warning: {module} cannot be imported: {reason}", err=True)
    return found


def _contributed_command(verb: str, module: str) -> click.Command:
    """The module is the application's: it may be missing, or have no such command."""
    try:
        command = getattr(import_module(module), verb, None)
    except ImportError as error:
        raise BadCommand(verb, module, f"cannot be imported: {error}") from error
    if not isinstance(command, click.Command):
        raise BadCommand(verb, module, f"is not a click command: define {verb} in that module")
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mayfly")
def mayfly() -> None:
    """Background jobs that live for less than a minute.

    Cron runs `mayfly dispatch` every minute; the other verbs are for operators and developers.
    """


def main() -> None:
    exits.run_command(mayfly, "mayfly")
