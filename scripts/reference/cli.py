"""docs/reference/cli.md, from the commands themselves."""

from collections.abc import Iterator

import click

from mayfly.cli import VERBS, mayfly
from scripts.reference.markdown import GENERATED, table

HEAD = f"""# Command line

{GENERATED}
`mayfly VERB --help` prints the same. `mayfly completion` enables completion in bash, zsh and fish. Modules of
HANDLERS may add verbs, see [handlers](python.md#handlers). Exit codes are on [their own page](exit-codes.md).

"""


def page(_current: str) -> str:
    with click.Context(mayfly, info_name="mayfly") as context:
        commands = {verb: mayfly.get_command(context, verb) for verb in sorted(VERBS)}
        found = {verb: command for verb, command in commands.items() if command is not None}
        overview = table(("verb", ""), [(f"[`{verb}`](#mayfly-{verb})", _summary(found[verb])) for verb in found])
        return HEAD + overview + "".join(_chapter(context, verb, command) for verb, command in found.items())


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(limit=200)


def _chapter(parent: click.Context, verb: str, command: click.Command) -> str:
    return "".join(_sections(parent, verb, command, heading="##"))


def _sections(parent: click.Context, name: str, command: click.Command, heading: str) -> Iterator[str]:
    """A command, and the subcommands of a group."""
    context = click.Context(command, info_name=name, parent=parent)
    path, usage = context.command_path, " ".join(command.collect_usage_pieces(context))
    yield f"\n{heading} {path}\n\n```\n{path} {usage}\n```\n\n{_paragraphs(command.help or '')}\n"
    if options := list(_options(context, command)):
        yield f"\n{table(('option', 'default', 'meaning'), options)}"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            child = command.get_command(context, each)
            assert child is not None
            yield from _sections(context, each, child, heading + "#")


def _paragraphs(text: str) -> str:
    """click marks paragraphs that it must not wrap by a backspace character."""
    paragraphs = text.replace("\b\n", "").strip().split("\n\n")
    return "\n\n".join("\n".join(line.strip() for line in each.splitlines()) for each in paragraphs)


def _options(context: click.Context, command: click.Command) -> Iterator[tuple[str, str, str]]:
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden and "--help" not in parameter.opts:
            yield f"`{_spelling(context, parameter)}`", _default(parameter), parameter.help or ""


def _spelling(context: click.Context, option: click.Option) -> str:
    record = option.get_help_record(context)
    assert record is not None
    return record[0]


def _default(option: click.Option) -> str:
    shown = option.default if option.show_default and not callable(option.default) else None
    if shown is None or shown is False or shown == () or str(shown).startswith("Sentinel"):
        return "required" if option.required else ""
    return f"`{shown}`"
