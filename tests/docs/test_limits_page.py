"""docs/how-to/limit.md is correct: its example runs, its listing is the output."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from freezegun import freeze_time

from mayfly import enqueue, registry
from mayfly.admin.lanes import list_limits
from mayfly.cli.text import limits_text
from mayfly.client import current_app
from mayfly.limits.limit import SPANS
from mayfly.testing import drain, using_database
from tests.docs.consoles import page_named
from tests.factories import NOON

PAGE = page_named("how-to/limit.md")


def block(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def delivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[object, str]]]:
    """The arguments that handlers of the page pass to `deliver`."""
    (tmp_path / "page_of_limits.py").write_text(block("python"))
    monkeypatch.setattr(registry, "_declared", {})
    monkeypatch.setattr("mayfly.client._apps", {})  # settings that an earlier test has loaded
    monkeypatch.setenv("HANDLERS", "page_of_limits")
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    noted: list[tuple[object, str]] = []
    with using_database(f"sqlite:///{tmp_path}/test.db"):
        assert current_app().registry.failures == {}
        vars(sys.modules["page_of_limits"])["deliver"] = lambda account, to: noted.append((account, to))
        yield noted
    sys.modules.pop("page_of_limits", None)


@freeze_time(NOON)
def test_the_example_works_as_described(delivered: list[tuple[object, str]]) -> None:
    """Three mails for account 42 and one for 7; the fourth waits for midnight in Berlin, as in the listing."""
    for account in (42, 42, 42, 42, 7):
        enqueue("send", {"account": account, "to": "ann"})

    assert drain().outcomes == {"done": 4, "snoozed": 1}

    database = current_app().database
    listed = database.read(lambda connection: list(list_limits(connection, NOON)))
    assert "\n".join(["$ mayfly limits", limits_text(listed), ""]) == block("text")
    enqueue("send_from_any", {"accounts": [42, 7], "to": "bob"})
    enqueue("send_from_any", {"accounts": [42], "to": "bob"})
    assert drain().outcomes == {"done": 1, "snoozed": 1}
    assert delivered == [(42, "ann")] * 3 + [(7, "ann"), (7, "bob")]
    waiting = "SELECT waiting_for FROM mayfly_jobs WHERE type = 'send' AND status = 'pending'"
    assert f"`{database.read(lambda connection: connection.execute(waiting).scalar())}`" in PAGE


def test_every_window_is_named() -> None:
    """And no other."""
    [sentence] = re.findall(r"^A window is a (.+?) in UTC", PAGE, flags=re.MULTILINE | re.DOTALL)

    assert tuple(re.findall(r"`(\w+)`", sentence)) == SPANS
