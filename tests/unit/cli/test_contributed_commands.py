"""Verbs of `mayfly` that modules of HANDLERS contribute."""

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mayfly.cli import mayfly

AREA = '''
"""Handlers with a command."""
__handlers__ = ()
__commands__ = {"harvest": "orchard_for_tests.commands"}
'''
COMMANDS = '''
import click

@click.command()
@click.argument("tree")
def harvest(tree):
    """Harvest a tree."""
    click.echo(f"harvested {tree}")
'''


@pytest.fixture
def orchard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of HANDLERS."""
    package = tmp_path / "orchard_for_tests"
    package.mkdir()
    (package / "__init__.py").write_text(AREA)
    (package / "commands.py").write_text(COMMANDS)
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setenv("HANDLERS", "orchard_for_tests")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [each for each in sys.modules if each.startswith("orchard_for_tests")]:
        monkeypatch.delitem(sys.modules, name)
    return package


def run(*arguments: str) -> Result:
    return CliRunner().invoke(mayfly, list(arguments))


def test_a_module_contributes_a_command(orchard: Path) -> None:
    """With its arguments, and in the list of commands."""
    done, listed = run("harvest", "apple"), run("--help")

    assert (done.exit_code, done.output) == (0, "harvested apple\n")
    assert re.search(r"\n  harvest +Harvest a tree\.\n", listed.output)


def test_a_misspelled_contributed_command_gets_a_suggestion(orchard: Path) -> None:
    refused = run("harvst", "apple")

    assert refused.output.endswith("No such command 'harvst'. Did you mean 'harvest'?\n")


def test_mayflys_own_verbs_import_no_handlers(orchard: Path) -> None:
    """They start as fast as before, and work if a module of HANDLERS is broken."""
    (orchard / "__init__.py").write_text("raise RuntimeError('broken')")

    done = run("status", "--help")

    assert done.exit_code == 0
    assert "orchard_for_tests" not in sys.modules


def test_the_help_is_printed_if_the_settings_are_wrong(orchard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without contributed commands."""
    monkeypatch.setenv("BATCH_SIZE", "many")

    listed = run("--help")

    assert listed.exit_code == 0
    assert "\n  enqueue " in listed.output
    assert "harvest" not in listed.output


@pytest.mark.parametrize(
    ("area", "commands", "sentence"),
    [
        (AREA.replace('"harvest"', '"status"'), COMMANDS,
         "The command 'status' of orchard_for_tests.commands has the name of a command of Mayfly: rename it."),
        (AREA, "harvest = 3",
         "The command 'harvest' of orchard_for_tests.commands is not a click command: define harvest in that "
         "module."),
        (AREA, "import no_such_library_for_tests",
         "The command 'harvest' of orchard_for_tests.commands cannot be imported: No module named "
         "'no_such_library_for_tests'."),
    ],
)  # fmt: skip
def test_a_wrong_command_is_an_error_that_names_it(orchard: Path, area: str, commands: str, sentence: str) -> None:
    """With what to do."""
    (orchard / "__init__.py").write_text(area)
    (orchard / "commands.py").write_text(commands)

    refused = run("harvest", "apple")

    assert str(refused.exception) == sentence


def test_a_module_that_cannot_be_imported_is_named(orchard: Path) -> None:
    """The missing command may be in it."""
    (orchard / "__init__.py").write_text("raise RuntimeError('broken')")

    refused = run("harvest", "apple")

    assert "warning: orchard_for_tests cannot be imported: RuntimeError: broken" in refused.output
    assert refused.output.endswith("No such command 'harvest'.\n")


def test_two_modules_cannot_contribute_the_same_verb(orchard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the order of HANDLERS would choose one."""
    other = orchard.parent / "other_orchard_for_tests.py"
    other.write_text('__commands__ = {"harvest": "other_orchard_for_tests"}')
    monkeypatch.setenv("HANDLERS", "orchard_for_tests,other_orchard_for_tests")

    refused = run("harvest", "apple")

    assert str(refused.exception) == (
        "The command 'harvest' of other_orchard_for_tests has the name of a command of orchard_for_tests.commands: "
        "rename one of them."
    )
