"""The help of `mayfly`: every verb loads and has a description of one line."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mayfly.cli import VERBS, mayfly

WIDTH = 78  # click leaves two columns of 80 free


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, parent=context, info_name=name)
        yield own, command
        if isinstance(command, click.Group):
            yield from commands(command, own)


ROOT = click.Context(mayfly, info_name="mayfly")
ALL = list(commands(mayfly, ROOT))


def test_every_verb_of_the_table_is_a_command_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mayfly retry` is the function retry; there are no others, unless a module of HANDLERS adds some."""
    monkeypatch.setenv("HANDLERS", "tests.basic_handlers")

    listed = mayfly.list_commands(click.Context(mayfly))

    assert listed == sorted(VERBS)
    assert [mayfly.get_command(click.Context(mayfly), name).name for name in listed] == listed  # type: ignore[union-attr]


def test_an_unknown_verb_is_none() -> None:
    assert mayfly.get_command(click.Context(mayfly), "nonsense") is None


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["enqeue", "noop"], "No such command 'enqeue'. Did you mean 'enqueue'?"),
        (["batches", "saal"], "No such command 'saal'. Did you mean 'seal'?"),
        (["jobs", "--status", "daed"], "'daed' is not one of 'pending', 'processing', 'done', 'dead', 'cancelled'."
         " Did you mean 'dead'?"),
    ],
)  # fmt: skip
def test_a_misspelled_word_gets_a_suggestion(arguments: list[str], hint: str) -> None:
    """Verbs, subcommands, and values of options."""
    refused = CliRunner().invoke(mayfly, arguments)

    assert refused.exit_code == 2  # click's own; `mayfly` exits with 64
    assert refused.output.endswith(f"{hint}\n")


def test_a_verb_that_resembles_none_gets_no_suggestion() -> None:
    refused = CliRunner().invoke(mayfly, ["nonsense"])

    assert refused.output.endswith("No such command 'nonsense'.\n")


GROUPS = [context for context, command in ALL if isinstance(command, click.Group)]


@pytest.mark.parametrize("group", [ROOT, *GROUPS], ids=lambda context: context.command_path)
def test_no_line_of_a_list_of_commands_is_cut(group: click.Context) -> None:
    """One line per command, within 80 columns."""
    assert isinstance(group.command, click.Group)
    context = click.Context(group.command, parent=group.parent, info_name=group.info_name, terminal_width=WIDTH)

    listed = group.command.get_help(context).split("Commands:")[1].strip().splitlines()

    assert not [line for line in listed if len(line) > WIDTH or line.endswith("...")]
    assert len(listed) == len(group.command.list_commands(group))


@pytest.mark.parametrize(("context", "command"), ALL, ids=lambda given: getattr(given, "command_path", ""))
def test_the_first_line_of_each_help_is_one_sentence(context: click.Context, command: click.Command) -> None:
    """It fits 80 columns unwrapped, in the help of the command and after its name in a list of commands."""
    assert command.help is not None
    sentence = command.help.split("\n\n")[0]
    shown = CliRunner().invoke(mayfly, [*context.command_path.split()[1:], "--help"], terminal_width=80).output
    names = context.parent.command.list_commands(context.parent)  # type: ignore[union-attr]

    assert sentence.endswith(".")
    assert f"\n  {sentence}\n" in shown
    assert len(f"  {max(names, key=len)}  {sentence}") <= WIDTH
    assert command.get_short_help_str(WIDTH) == sentence


@pytest.mark.parametrize(("context", "command"), ALL, ids=lambda given: getattr(given, "command_path", ""))
def test_no_line_of_a_help_is_wider_than_a_terminal(context: click.Context, command: click.Command) -> None:
    """80 columns; an option's help may wrap, but is never cut."""
    own = click.Context(command, parent=context.parent, info_name=context.info_name, terminal_width=80)

    assert max(map(len, command.get_help(own).splitlines())) <= 80


@pytest.mark.parametrize(("context", "command"), ALL, ids=lambda given: getattr(given, "command_path", ""))
def test_every_option_has_a_help_text(context: click.Context, command: click.Command) -> None:
    """So has every command."""
    assert command.help
    assert all(each.help for each in command.get_params(context) if isinstance(each, click.Option))
