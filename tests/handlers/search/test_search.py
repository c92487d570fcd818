"""The search index: matches, atomic swaps, and no tables left over."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.pool import NullPool

from handlers.search import rebuild as rebuilding
from handlers.search import tables
from handlers.search.query import Hit, find
from handlers.search.tables import INDEX_NAME
from handlers.search.tokenizer import snippet, words_of
from mayfly import Job, enqueue, handler
from mayfly.client import current_app
from mayfly.testing import drain, run_inline
from tests.handlers.ai.boards import Boards, execute, rows, run_again
from tests.handlers.rows import reader
from tests.hypothesis_profiles import in_full
from tests.process.installation import CHECKOUT

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


@pytest.fixture
def boards(platform: str) -> Boards:
    return Boards()


def rebuild() -> None:
    enqueue("rebuild_search_index")
    assert drain().outcomes == {"done": 1}


def search(text: str) -> list[tuple[str, int]]:
    hits = find(reader(current_app().database), text)
    assert hits is not None
    return [(hit.kind, hit.id) for hit in hits]


def index_tables(url: str) -> list[str]:
    names = inspect(create_engine(url, poolclass=NullPool)).get_table_names()
    return sorted(each for each in names if INDEX_NAME.fullmatch(each))


@pytest.mark.every_database
def test_all_words_must_match(boards: Boards) -> None:
    """All words, whole, in title or text, short and common ones too, in any case and order. On every database."""
    boards.add(1, "The Übergröße of IT beans", "beans only", title="Café plans")
    boards.post(1, "beans draft", state="draft")
    boards.add(2, title="Beans of the world")
    rebuild()

    assert sorted(search("beans")) == [("board", 2), ("post", 1), ("post", 2)]
    assert search("ubergrosse BEANS") == [("post", 1)]
    assert search("it the") == [("post", 1)]
    assert sorted(search("cafe")) == [("board", 1), ("post", 1), ("post", 2)]
    assert [search(text) for text in ("bean", "beans nothing", "", "+-*")] == [[], [], [], []]


@pytest.mark.every_database
def test_merged_prospects_are_not_found(boards: Boards) -> None:
    """Their winner is. On every database."""
    for number, merged_into in ((1, None), (2, 1)):
        execute(
            "INSERT INTO app_prospects (id, name, company, title, email, merged_into, created_at, updated_at)"
            " VALUES (:id, 'Ada Arndt', 'Root & Branch', NULL, :email, :merged_into, :at, :at)",
            id=number, email=f"ada{number}@example.com", merged_into=merged_into, at=boards.now,
        )  # fmt: skip
    rebuild()

    assert [search(text) for text in ("arndt root", "ada1", "ada2")] == [[("prospect", 1)], [("prospect", 1)], []]


def test_a_search_without_an_index(boards: Boards) -> None:
    """Is not the same as a search without matches."""
    assert find(reader(current_app().database), "beans") is None


def test_a_search_sees_the_old_index_until_the_new_one_is_complete(
    boards: Boards, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each point of a build; then the old table is dropped."""
    monkeypatch.setattr(rebuilding, "ROWS_PER_SLICE", 2)
    boards.add(1, *(["old beans"] * 3))
    rebuild()
    rebuild()  # so that the next one, which is also job 1, is not current
    boards.add(2, *(["new beans"] * 4))
    before = [("post", number) for number in (1, 2, 3)]

    state, seen = None, []
    while (run := run_inline("rebuild_search_index", state=state, slice_after=1)).kind != "done":
        state = run.state
        seen.append(sorted(search("beans")))

    assert len(seen) >= 7  # two boards, seven posts, and the end of each kind
    assert all(each == before for each in seen)
    assert sorted(search("beans")) == [("post", number) for number in range(1, 8)]
    assert index_tables(platform) == ["app_search_1"]
    assert rows("SELECT name, entries FROM app_search_pointer") == [("app_search_1", 9)]


@pytest.mark.every_database
def test_a_slice_that_is_added_twice_is_there_once(boards: Boards, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kill between a slice and its checkpoint. On every database."""
    monkeypatch.setattr(rebuilding, "ROWS_PER_SLICE", 2)
    boards.add(1, *(["beans"] * 5))
    first = run_inline("rebuild_search_index", slice_after=1)
    run_inline("rebuild_search_index", state=first.state, slice_after=3)

    run_inline("rebuild_search_index", state=first.state)

    assert sorted(search("beans")) == [("post", number) for number in range(1, 6)]


def test_a_repeated_job_changes_nothing(boards: Boards, platform: str) -> None:
    """It only drops old tables."""
    boards.add(1, "beans")
    rebuild()
    run_again()

    assert drain().outcomes == {"done": 1}
    assert (search("beans"), index_tables(platform)) == ([("post", 1)], ["app_search_1"])


def test_tables_of_dead_builds_are_dropped(boards: Boards, platform: str) -> None:
    """Also if a runner was killed while dropping; tables of live builds stay."""
    boards.add(1, "beans")
    for _ in range(3):
        enqueue("rebuild_search_index")
    execute("UPDATE mayfly_jobs SET status = 'dead', finished_at = run_at WHERE id IN (1, 3)")
    execute("UPDATE mayfly_jobs SET run_at = :later WHERE id = 2", later=boards.now.replace(year=2200))
    for number, state in ((1, "standing"), (2, "standing"), (3, "dropping")):
        row = {"name": f"app_search_{number}", "number": number, "state": state}
        execute("INSERT INTO app_search_tables (name, job_id, state) VALUES (:name, :number, :state)", **row)
    for number in (1, 2):  # 3 is gone, except its row
        execute(f"CREATE TABLE app_search_{number} (id INTEGER)")

    rebuild()

    assert index_tables(platform) == ["app_search_2", "app_search_4"]
    assert rows("SELECT name FROM app_search_tables ORDER BY name") == [("app_search_2",), ("app_search_4",)]


@pytest.mark.every_database
def test_a_job_whose_table_was_dropped_starts_again(boards: Boards) -> None:
    """A dead job that is retried days later. On every database."""
    boards.add(1, "beans", "beans")
    halfway = run_inline("rebuild_search_index", slice_after=1)
    enqueue("noop")  # takes the id of that job
    drain()
    rebuild()
    assert rows("SELECT name FROM app_search_tables") == [("app_search_2",)]

    run = run_inline("rebuild_search_index", state=halfway.state)

    assert run.kind == "done"
    assert rows("SELECT name, entries FROM app_search_pointer") == [("app_search_1", 3)]
    assert search("garden beans") == [("post", 1), ("post", 2)]


@pytest.mark.every_database
def test_nothing_points_to_a_table_that_is_being_dropped(boards: Boards, platform: str) -> None:
    """A suspended runner continues after another build has dropped its table. On every database."""
    results: list[object] = []

    @handler("thawed", max_attempts=1)
    def thawed(job: Job) -> None:
        tables.register(job, "app_search_99")
        tables.register(job, "app_search_98")
        execute("UPDATE app_search_tables SET state = 'dropping' WHERE name = 'app_search_99'")
        results.append([tables.swap_in(job, f"app_search_{number}", 0) for number in (97, 98, 99)])
        tables.drop(job, "app_search_98")  # it is current, so it stays
        results.append([tables.state_of(job, f"app_search_{number}") for number in (98, 99)])

    enqueue("thawed")
    drain()

    assert results == [[False, True, False], ["standing", "dropping"]]


@pytest.mark.every_database
def test_a_search_in_a_dropped_table_is_repeated(boards: Boards, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index was swapped after the pointer was read. On every database."""
    boards.add(1, "beans")
    rebuild()
    stale = iter(["app_search_77"])
    read = reader(current_app().database)

    def late(work: Callable[[Connection], Any], /) -> Any:
        found = read(work)
        return next(stale, found) if isinstance(found, str) else found

    assert find(late, "beans") == [Hit("post", 1, "Garden", "beans")]


def test_only_index_tables_are_searched(boards: Boards) -> None:
    """The name becomes part of a statement."""
    boards.add(1, "beans")
    rebuild()
    execute("UPDATE app_search_pointer SET name = 'app_posts; DROP TABLE app_posts'")

    with pytest.raises(ValueError, match="is not the name of a search index"):
        search("beans")


@pytest.mark.every_database
@in_full(50)
@given(text=st.text(max_size=40) | st.text("abé\"'*+-~()<>@:&|!\\%_^{}; \n\0ORANDNEAR", max_size=40))
def test_no_input_can_break_a_query(boards: Boards, text: str) -> None:
    """Any text is a valid query. On every database."""
    if not rows("SELECT name FROM app_search_pointer"):
        boards.add(1, "beans")
        rebuild()

    assert set(search(text)) <= {("board", 1), ("post", 1)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann.O'Neil@Shop.example", ["ann", "o", "neil", "shop", "example"]),
        ("Größe ÅNGSTRÖM ﬁne ²", ["grosse", "angstrom", "fine", "2"]),
        ("snake_case 日本語 -- \ud800", ["snake", "case", "日本語"]),
        ("x" * 100, ["x" * 64]),
    ],
)
def test_words_are_normalised(text: str, words: list[str]) -> None:
    """Letters and digits in lower case, without accents."""
    assert words_of(text) == words


def test_a_snippet_is_around_the_first_word() -> None:
    """On one line, with omissions marked."""
    text = "one two\nthree " * 50 + "Größe here " + "four five " * 50

    assert snippet("short\ntext", ["none"]) == "short text"
    assert "Größe here four" in snippet(text, ["grosse"])
    assert snippet(text, ["grosse"])[0] == snippet(text, ["grosse"])[-1] == "…"


@SQLITE
def test_the_script_searches(boards: Boards, platform: str) -> None:
    """As safe text, as JSON, and with an error message without an index."""

    def script(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DATABASE_URL": platform, "PYTHONPATH": str(CHECKOUT)}
        command = [sys.executable, str(CHECKOUT / "scripts/search_words.py"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    before = script("beans")
    boards.add(1, "all\x1b[31m beans are red")
    rebuild()
    found, as_json, none = script("RED", "beans"), script("--json", "beans"), script("'\" OR 1=1 --")

    assert (before.returncode, before.stdout) == (1, "")
    assert "There is no search index" in before.stderr
    assert found.stdout == "post 1  Garden  all�[31m beans are red\n"
    assert [each["id"] for each in json.loads(as_json.stdout)] == [1]
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "")
    assert script("--most", "0", "beans").returncode == script().returncode == 64


@pytest.mark.every_database
def test_a_missing_index_table_is_an_error(boards: Boards) -> None:
    """The pointer has not moved: no empty result. On every database."""
    boards.add(1, "beans")
    rebuild()
    execute("DROP TABLE app_search_1")

    with pytest.raises(Exception, match="no table app_search_1"):
        search("beans")
