"""The help of `mayfly`: every verb loads, and says in one line what it does."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mayfly.cli.main import VERBS, mayfly

WIDTH = 78  # click leaves two columns of 80 free


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, parent=context, info_name=name)
        yield own, command
        if isinstance(command, click.Group):
            yield from commands(command, own)


ALL = list(commands(mayfly, click.Context(mayfly, info_name="mayfly")))


def test_every_verb_of_the_table_is_a_command_of_its_name() -> None:
    """`mayfly retry` is the function retry."""
    listed = mayfly.list_commands(click.Context(mayfly))

    assert listed == sorted(VERBS)
    assert [VERBS[name].partition(":")[2] for name in listed] == listed


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
def test_a_misspelled_word_suggests_the_right_one(arguments: list[str], hint: str) -> None:
    """Verbs, verbs below a verb, and words that an option takes."""
    refused = CliRunner().invoke(mayfly, arguments)

    assert refused.exit_code == 2  # click's own; `mayfly` exits with 64
    assert refused.output.endswith(f"{hint}\n")


def test_a_verb_that_resembles_none_gets_no_suggestion() -> None:
    refused = CliRunner().invoke(mayfly, ["nonsense"])

    assert refused.output.endswith("No such command 'nonsense'.\n")


@pytest.mark.parametrize("name", ["", "batches", "lanes", "schedules", "token"])
def test_no_line_of_a_list_of_commands_is_cut(name: str) -> None:
    """Each fits 80 columns."""
    root = click.Context(mayfly, info_name="mayfly")
    group = mayfly.get_command(root, name) if name else mayfly
    assert group is not None
    context = click.Context(group, parent=root if name else None, info_name=name or "mayfly", terminal_width=WIDTH)

    _usage, listed = group.get_help(context).split("Commands:")

    assert "..." not in listed
    assert len(listed.strip().splitlines()) == len(group.list_commands(context))  # type: ignore[attr-defined]


@pytest.mark.parametrize(("context", "command"), ALL, ids=lambda given: getattr(given, "command_path", ""))
def test_every_option_says_what_it_does(context: click.Context, command: click.Command) -> None:
    """And every command."""
    assert command.help
    assert all(each.help for each in command.get_params(context) if isinstance(each, click.Option))
