"""[sources] in mayfly.toml: defaults, and one sentence for each mistake."""

from pathlib import Path

import pytest

from mayfly.settings import load_settings
from tests.unit.settings.factories import problem_in, settings_in

MINIMAL = """
[sources.posts]
table = "posts"
type = "publish"
pending = "pending"
processing = "processing"
done = "published"
failed = "failed"
"""


def test_a_source_needs_table_type_and_status_values(tmp_path: Path) -> None:
    """All else has defaults: the lane is named like the source."""
    source = settings_in(tmp_path, toml=MINIMAL).sources["posts"]

    assert (source.name, source.lane, source.id, source.status) == ("posts", "posts", "id", "status")
    assert (source.run_at, source.run_at_format, source.timezone) == (None, "datetime", "UTC")
    assert (source.pending, source.cancelled_value, source.adopt_after) == (("pending",), "failed", None)


def test_status_values_can_be_several_integers_or_null(tmp_path: Path) -> None:
    """ "NULL" stands for NULL, which TOML does not have."""
    toml = MINIMAL.replace('pending = "pending"', 'pending = [0, "retry", "NULL"]')

    assert settings_in(tmp_path, toml=toml).sources["posts"].pending == (0, "retry", None)


@pytest.mark.parametrize("name", ["table", "type", "pending", "processing", "done", "failed"])
def test_a_missing_setting_is_named(tmp_path: Path, name: str) -> None:
    """With what it must be."""
    toml = "".join(line for line in MINIMAL.splitlines(keepends=True) if not line.startswith(f"{name} ="))

    problem = problem_in(tmp_path, toml=toml)

    assert f"sources.posts.{name}" in problem
    assert "is missing; set it to " in problem


MISTAKES = {
    'table = "posts; DROP TABLE posts"': "the name of a table",
    'table = "a.b.c"': "the name of a table",
    'id = "no-name"': "the name of a column",
    'id = ""': "the name of a column",
    'payload = ["title", "1st"]': "the names of 1 to 50 columns",
    "payload = []": "the names of 1 to 50 columns",
    "pending = []": "text or an integer",
    "pending = true": "text or an integer",
    "done = 1.5": "text or an integer",
    'run_at_format = "iso"': "datetime, text, epoch or epoch_ms",
    'timezone = "Europe/Atlantis"': "Europe/Atlantis is not a time zone",
    'adopt_after = "soon"': "adopt_after",
    'done = "pending"': "must differ from `pending` and `processing`",
    'failed = "processing"': "must differ from `pending` and `processing`",
    'cancelled = "pending"': "must differ from `pending` and `processing`",
    'processing = "pending"': "must differ from `pending`",
    'adopt_after = "15m"': "needs `locked_at`",
    "priorities = {high = 0}": "needs `priority`",
    'priority = "p"\npriorities = {high = 7}': "0, 1 or 2",
    'colour = "red"': "colour",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path: Path, line: str) -> None:
    """That names the key in mayfly.toml and what is allowed."""
    replaced = line.partition(" ")[0]
    kept = [each for each in MINIMAL.splitlines() if not each.startswith(f"{replaced} =")]

    problem = problem_in(tmp_path, toml="\n".join([*kept, line]))

    assert "sources.posts" in problem
    assert MISTAKES[line] in problem


@pytest.mark.parametrize("name", ["with-dash", "a.b", "x" * 33])
def test_a_name_must_fit_the_key_of_its_jobs(tmp_path: Path, name: str) -> None:
    """Letters, digits and underscores: the unique key of a job begins with it."""
    problem = problem_in(tmp_path, toml=MINIMAL.replace("sources.posts", f'sources."{name}"'))

    assert "the name of a source must be 1 to 32 characters of A-Z a-z 0-9 _" in problem


def test_several_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    """One line each."""
    toml = MINIMAL.replace('"published"', '"pending"') + 'adopt_after = "15m"\n'

    problem = problem_in(tmp_path, toml=toml)

    assert "sources.posts.done" in problem
    assert "sources.posts.adopt_after" in problem


def test_a_lane_without_runners_is_refused(tmp_path: Path) -> None:
    """Workers of an external lane know no rows."""
    problem = problem_in(tmp_path, toml=f"{MINIMAL}[lanes.posts]\nexternal = true\n")

    assert "is in the external lane posts, which no runner serves" in problem


def test_variables_cannot_change_a_source(tmp_path: Path) -> None:
    """Its SQL comes from the file alone."""
    environ = {"SOURCES__POSTS__WHERE": "1 = 1", "SOURCES__OTHER__TABLE": "mayfly_jobs"}

    sources = settings_in(tmp_path, environ, toml=MINIMAL).sources

    assert (list(sources), sources["posts"].where) == (["posts"], None)


def test_a_snapshot_contains_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process, which reads the snapshot, has the same."""
    (tmp_path / "mayfly.toml").write_text(MINIMAL.replace('"pending"', '["pending", "NULL"]'))
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setenv("STATE_DIR", str(tmp_path / "state"))

    first, second = load_settings(), load_settings()

    assert first.sources == second.sources
    assert second.sources["posts"].pending == ("pending", None)
