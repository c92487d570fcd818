"""Imports and merges with runners that are killed at random: nothing is lost or duplicated."""

import csv
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.handlers.process.random_kills import drain_under_kills, rows_of
from tests.handlers.prospects.tables import insert
from tests.process.installation import Installation

ROWS = 12_000
PEOPLE = 3_000
KILLS = 3
MIB = 1 << 20


@pytest.fixture
def platform(installation: Installation) -> Installation:
    """With a directory for imports."""
    installation.settings = {"IMPORT_FILES": str(installation.home), "BACKOFF_BASE": "0.01"}
    return installation


# --- imports ----------------------------------------------------------------------------------------------


def test_an_import_survives_kills(platform: Installation) -> None:
    """Each good row is a prospect, each bad one is in the rejects file, in order and once."""
    killed, job = run_import(platform, ROWS, KILLS)

    assert (killed, job.status) == (KILLS, "done")
    assert_whole(platform, job)


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["sqlite", "mariadb"], indirect=True)
def test_a_million_rows_need_little_memory(platform: Installation) -> None:
    """In slices, with kills, below 100 MB per runner."""
    began = time.monotonic()
    killed, job = run_import(platform, 1_000_000, 5)

    print(f"1,000,000 rows in {time.monotonic() - began:.0f} s, {job.slices} slices, {killed} kills")
    peak = platform.rows("SELECT MAX(peak_memory) AS bytes FROM mayfly_runners")[0].bytes
    print(f"peak memory of a runner: {peak / MIB:.0f} MiB")
    assert (killed, job.status) == (5, "done")
    assert peak < 100_000_000
    assert_whole(platform, job)


def run_import(installation: Installation, count: int, kills: int) -> tuple[int, Any]:
    """Every tenth row is bad, and some notes have several lines."""
    with (installation.home / "people.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["E-Mail", "Name", "Company", "Notes"])
        for number in range(count):
            mail = "bad" if number % 10 == 9 else f"person{number}@example.com"
            notes = "two\nlines" if number % 7 == 0 else ""
            writer.writerow([mail, f"Ann Miller {number}", f"Company {number % 997}", notes])
    [job_id] = installation.enqueue("import_prospects", '{"path": "people.csv"}', lane="import_prospects")
    rejects = rejects_of(installation, job_id)
    killed = drain_under_kills(
        installation,
        lambda: rejects.exists() and rejects.stat().st_size,
        rows_of(installation, "SELECT MAX(line) FROM app_prospects"),
        rows_of(installation, "SELECT checkpoint FROM mayfly_jobs"),
        kills=kills,
    )
    return killed, installation.job(job_id)


def rejects_of(installation: Installation, job_id: int) -> Path:
    return installation.home / f"people.csv.{job_id}.rejected.csv"


def assert_whole(installation: Installation, job: Any) -> None:
    good, bad = lines_of(installation.home / "people.csv")
    found = [row.line for row in installation.rows("SELECT line FROM app_prospects ORDER BY line")]
    with rejects_of(installation, job.id).open(newline="") as file:
        rejects = [row[0] for row in csv.reader(file)]

    assert found == good
    assert rejects == ["line", *map(str, bad)]


def lines_of(path: Path) -> tuple[list[int], list[int]]:
    """The first lines of the good and the bad records."""
    good: list[int] = []
    bad: list[int] = []
    begins = 2
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        next(reader)
        for row in reader:
            (bad if row[0] == "bad" else good).append(begins)
            begins = reader.line_num + 1
    return good, bad


# --- merges -----------------------------------------------------------------------------------------------


def test_merges_survive_kills(platform: Installation) -> None:
    """Each person is there once, and each duplicate has one merge."""
    killed, job = run_dedup(platform, PEOPLE, PEOPLE, KILLS)

    assert (killed, job.status) == (KILLS, "done")
    assert_merged(platform, PEOPLE, PEOPLE)


@pytest.mark.slow
@pytest.mark.parametrize("engine_name", ["sqlite", "mariadb"], indirect=True)
def test_200_000_prospects_are_compared_in_minutes(platform: Installation) -> None:
    """Without 2 × 10¹⁰ comparisons."""
    people, duplicates = 160_000, 40_000
    killed, job = run_dedup(platform, people, duplicates, 5)

    print(f"{job.slices} slices, {killed} kills, {job.progress}")
    assert (killed, job.status) == (5, "done")
    assert_merged(platform, people, duplicates)


def run_dedup(installation: Installation, people: int, duplicates: int, kills: int) -> tuple[int, Any]:
    """Duplicates by mail and by similar name and profile, half each; many share a company."""
    rng = random.Random(2)
    given: list[dict[str, str]] = []
    for number in range(people):
        word = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=14))
        company = f"Company {number % 50}"
        if number % 2:
            one = {"email": f"{word}@gmail.com", "company": company}
            other = {"email": f"{word[0]}.{word[1:]}+x@googlemail.com", "phone": "1"}
        else:
            one = {"name": f"Ann {word}", "company": company, "linkedin": f"linkedin.com/in/{word}"}
            other = {**one, "name": f"Ann {word}s", "company": f"{company} Inc.", "phone": "1"}
        given += [one, other] if number < duplicates else [one]
    rng.shuffle(given)
    insert(installation.url, given)
    began = time.monotonic()
    [job_id] = installation.enqueue("dedup_prospects", "{}", lane="dedup_prospects")
    killed = drain_under_kills(
        installation,
        rows_of(installation, "SELECT MAX(id) FROM app_merges"),
        rows_of(installation, "SELECT checkpoint FROM mayfly_jobs"),
        kills=kills,
    )
    print(f"{len(given):,} prospects in {time.monotonic() - began:.0f} s")
    return killed, installation.job(job_id)


def assert_merged(installation: Installation, people: int, duplicates: int) -> None:
    living = installation.rows("SELECT phone FROM app_prospects WHERE merged_into IS NULL")
    losers = installation.rows("SELECT id, merged_into FROM app_prospects WHERE merged_into IS NOT NULL ORDER BY id")
    merges = installation.rows("SELECT loser_id, winner_id FROM app_merges ORDER BY loser_id")

    assert (len(living), len(losers)) == (people, duplicates)
    assert sum(row.phone == "1" for row in living) == duplicates
    assert [tuple(row) for row in merges] == [tuple(row) for row in losers]
