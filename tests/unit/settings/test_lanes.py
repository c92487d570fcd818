"""Lanes and pools: their names, the global values they inherit, and invalid values."""

from pathlib import Path

import pytest

from mayfly.settings import ResolvedLane
from mayfly.settings.model import LaneModel
from tests.unit.settings.factories import problem_in, settings_in


def of_lane(lane: ResolvedLane) -> dict[str, object]:
    """The name of the lane and every setting it can have."""
    return {name: getattr(lane, name) for name in ("name", "is_long", *LaneModel.model_fields)}


def test_a_lane_without_settings_has_the_global_values(tmp_path: Path) -> None:
    """Every lane has settings."""
    settings = settings_in(tmp_path, {"BATCH_SIZE": "7", "MAX_WORKERS": "9", "MIN_WORKERS": "2"})

    assert of_lane(settings.lane("any")) == {
        "name": "any", "batch_size": 7, "max_workers": 9, "min_workers": 2, "concurrency": 100, "worker_timeout": 50,
        "is_long": False, "linger": 0, "rank": 0, "pool": None, "external": False, "latency_target": None,
        "keep_successes": False, "on_doubt": None, "worker_memory": None, "launcher": None,
    }  # fmt: skip


def test_settings_of_a_lane_override_the_global_ones(tmp_path: Path) -> None:
    """The others are inherited."""
    settings = settings_in(
        tmp_path,
        {
            "LANES__SEND_EMAIL__MAX_WORKERS": "8",
            "LANES__SEND_EMAIL__CONCURRENCY": "20",
            "LANES__SEND_EMAIL__RANK": "-1",
            "LANES__SEND_EMAIL__EXTERNAL": "yes",
            "LANES__SEND_EMAIL__POOL": "email",
            "LANES__SEND_EMAIL__LINGER": "0",
            "LANES__SEND_EMAIL__LATENCY_TARGET": "5m",
            "LANES__SEND_EMAIL__KEEP_SUCCESSES": "yes",
            "LANES__SEND_EMAIL__ON_DOUBT": "resend",
            "LANES__SEND_EMAIL__WORKER_MEMORY": "1G",
            "WORKER_MEMORY": "512M",
            "LINGER": "55",
            "POOLS__EMAIL": "3",
        },
    )

    assert of_lane(settings.lane("send_email")) == {
        "name": "send_email", "batch_size": 5, "max_workers": 8, "min_workers": 1, "concurrency": 20,
        "worker_timeout": 50, "is_long": False, "linger": 0, "rank": -1, "pool": "email", "external": True,
        "latency_target": 300, "keep_successes": True, "on_doubt": "resend", "worker_memory": 1 << 30,
        "launcher": None,
    }  # fmt: skip
    assert settings.pools == {"email": 3}


def test_lane_names_in_toml_keep_their_case(tmp_path: Path) -> None:
    """Only names from the environment are lower-cased."""
    settings = settings_in(tmp_path, toml='[lanes."Mail.eu:1-a"]\nrank = 3\n[pools]\nBig = 2')

    assert settings.lane("Mail.eu:1-a").rank == 3
    assert settings.pools == {"Big": 2}


def test_an_empty_table_declares_a_lane(tmp_path: Path) -> None:
    """[lanes.mail] can be empty, and the environment can add to it."""
    settings = settings_in(tmp_path, {"LANES__MAIL__RANK": "2"}, toml="[lanes.mail]\n[lanes.web]")

    assert set(settings.lanes) == {"mail", "web"}
    assert settings.lane("mail").rank == 2


def test_a_lane_name_can_contain_double_underscores(tmp_path: Path) -> None:
    """The setting follows the last double underscore."""
    assert settings_in(tmp_path, {"LANES__A__B__RANK": "2"}).lane("a__b").rank == 2


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        (
            {"LANES__X__MIN_WORKERS": "6"},
            "LANES__X__MIN_WORKERS=6 (environment) and MAX_WORKERS=5 (default)",
        ),
        (
            {"LANES__X__MAX_WORKERS": "1", "MIN_WORKERS": "2"},
            "MIN_WORKERS=2 (environment) and LANES__X__MAX_WORKERS=1 (environment)",
        ),
        (
            {"LANES__X__MAX_WORKERS": "1", "LANES__X__MIN_WORKERS": "2"},
            "LANES__X__MIN_WORKERS=2 (environment) and LANES__X__MAX_WORKERS=1 (environment)",
        ),
    ],
)
def test_bounds_of_a_lane_must_be_consistent_with_inherited_ones(
    tmp_path: Path, environ: dict[str, str], named: str
) -> None:
    """Both conflicting values are named, wherever they come from."""
    problem = problem_in(tmp_path, environ)

    assert problem == f"{named}: must be MIN_WORKERS <= MAX_WORKERS in the lane x"


def test_a_global_conflict_is_not_repeated_for_every_lane(tmp_path: Path) -> None:
    """One mistake, one line."""
    problem = problem_in(tmp_path, {"MIN_WORKERS": "6"}, toml="[lanes.a]\n[lanes.b]")

    assert len(problem.splitlines()) == 1


def test_a_lane_in_a_pool_without_a_cap_is_refused(tmp_path: Path) -> None:
    """A misspelled pool would have no cap; the sentence lists the known pools."""
    problem = problem_in(tmp_path, {"LANES__X__POOL": "Email", "POOLS__EMAIL": "3"})

    assert problem.startswith("LANES__X__POOL=Email (environment): is not a pool; pools are email, ")


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("LANES__X__MAX_WORKERS", "0", "an integer from 1 to 1000"),
        ("LANES__X__BATCH_SIZE", "x", "an integer from 1 to 1000"),
        ("LANES__X__RANK", "1.5", "an integer"),
        ("LANES__X__EXTERNAL", "maybe", "true or false"),
        ("LANES__X__POOL", "a b", "the name of a pool"),
        ("LANES__X__ON_DOUBT", "maybe", "hold or resend"),
        ("POOLS__X", "0", "an integer from 1 to 1000"),
    ],
)
def test_an_invalid_value_of_a_lane_is_named_as_it_was_written(
    tmp_path: Path, name: str, value: str, rule: str
) -> None:
    """LANES__X__MAX_WORKERS, not lanes.x.max_workers."""
    assert problem_in(tmp_path, {name: value}) == f"{name}={value} (environment): must be {rule}"


@pytest.mark.parametrize("name", ["LANES__X__RANK", "POOLS__X"])
def test_an_empty_value_of_a_lane_is_refused(tmp_path: Path, name: str) -> None:
    """As for every other setting."""
    assert problem_in(tmp_path, {name: ""}).startswith(f"{name}= (environment): is empty; set it to an integer")


@pytest.mark.parametrize(
    ("toml", "spelled", "kind"),
    [
        ('[lanes."a b"]\nrank = 1', "lanes.'a b'", "lane"),
        ("[lanes.-a]", "lanes.-a", "lane"),
        (f"[lanes.{'a' * 65}]", f"lanes.{'a' * 65}", "lane"),
        ('[pools]\n"ä" = 1', r"pools.'\xe4'", "pool"),
    ],
)
def test_an_invalid_lane_name_is_refused(tmp_path: Path, toml: str, spelled: str, kind: str) -> None:
    """Names appear unchanged in columns, log lines and URLs."""
    problem = problem_in(tmp_path, {"BATCH_SIZE": "3"}, toml=f"max_workers = 3\n[lanes.fine]\n{toml}")

    assert problem.startswith(f"{spelled} ({tmp_path}/mayfly.toml): the name of a {kind} must be 1 to 64 ")


@pytest.mark.parametrize("toml", ["lanes = 5", "lanes.x = 5", "pools = [1]"])
def test_a_value_instead_of_a_table_is_refused(tmp_path: Path, toml: str) -> None:
    """Also if the environment adds to it."""
    problem = problem_in(tmp_path, {"LANES__X__RANK": "1", "POOLS__X": "1"}, toml=toml)

    assert f"({tmp_path}/mayfly.toml): must be" in problem
    assert "table" in problem
