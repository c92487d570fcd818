"""Deletion of log files by age and size, below one directory, except files in use."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.maintenance.log_files import LogFile, choose, open_files
from mayfly import enqueue
from mayfly.testing import Run, drain
from tests.hypothesis_profiles import in_full


@pytest.fixture
def engine_name() -> str:
    """Files do not depend on the database."""
    return "sqlite"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "logs"
    directory.mkdir()
    monkeypatch.setenv("LOG_FILES_DIR", str(directory))
    return directory


def make(path: Path, days: float, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    at = path.stat().st_mtime - timedelta(days=days).total_seconds()
    os.utime(path, (at, at))
    return path


def vacuum(**payload: int) -> Run:
    enqueue("vacuum_logs", payload)
    return drain(raises=False).runs[-1]


def names_in(directory: Path) -> set[str]:
    return {
        str(each.relative_to(directory)) for each in directory.rglob("*") if each.is_symlink() or not each.is_dir()
    }


def test_old_files_are_deleted(platform: str, logs: Path) -> None:
    """At any depth, rotated and compressed ones too; nothing else. The second run finds none."""
    for name in ("a.log", "a.log.1", "sub/deep/b.log.2.gz", "c.log-20260101"):
        make(logs / name, 31)
    make(logs / "young.log", 29)
    make(logs / "data.db", 400)

    first, second = vacuum(), vacuum()

    assert first.result == {"rows": 0, "files": 4, "bytes": 40}
    assert second.result == {"rows": 0, "files": 0, "bytes": 0}
    assert names_in(logs) == {"young.log", "data.db"}


def test_too_many_bytes_take_the_oldest_first(platform: str, logs: Path) -> None:
    """Until the rest fits."""
    for days in (1, 2, 3, 4):
        make(logs / f"{days}.log", days, size=100)

    run = vacuum(file_bytes=250)

    assert run.result == {"rows": 0, "files": 2, "bytes": 200}
    assert names_in(logs) == {"1.log", "2.log"}


def test_nothing_outside_is_touched(platform: str, logs: Path, tmp_path: Path) -> None:
    """Neither through a link to a directory nor to a file; the links stay too."""
    outside = make(tmp_path / "outside" / "precious.log", 400)
    (logs / "linked").symlink_to(outside.parent)
    (logs / "linked.log").symlink_to(outside)
    os.utime(logs / "linked.log", (0, 0), follow_symlinks=False)

    run = vacuum(file_bytes=0)

    assert run.result == {"rows": 0, "files": 0, "bytes": 0}
    assert outside.exists()
    assert names_in(logs) == {"linked", "linked.log"}


def test_files_in_use_are_kept(platform: str, logs: Path) -> None:
    """Open, or written to within the last hour, of any size and age."""
    quiet = make(logs / "quiet.log", 400)
    make(logs / "fresh.log", 0.01)
    make(logs / "old.log", 400)

    with quiet.open("ab"):
        run = vacuum(file_bytes=0)

    assert run.result == {"rows": 0, "files": 1, "bytes": 10}
    assert names_in(logs) == {"quiet.log", "fresh.log"}


@pytest.mark.parametrize("value", ["logs", "/no/such/directory", "/etc/hostname"])
def test_an_invalid_directory_is_final(platform: str, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """With the name of the setting."""
    monkeypatch.setenv("LOG_FILES_DIR", value)

    run = vacuum()

    assert (run.kind, run.reason) == ("dead", "LOG_FILES_DIR must be the absolute path of a directory")


FILES = st.builds(
    LogFile, st.tuples(st.just(1), st.integers(1, 50)), st.floats(0, 100, allow_nan=False), st.integers(0, 100)
)


@in_full(50)
@given(
    found=st.lists(FILES, unique_by=lambda each: each.identity),
    in_use=st.sets(st.tuples(st.just(1), st.integers(1, 50))),
    before=st.floats(0, 100, allow_nan=False),
    max_bytes=st.integers(0, 2000),
)
def test_files_are_chosen_by_age_and_size(
    found: list[LogFile], in_use: set[tuple[int, int]], before: float, max_bytes: int
) -> None:
    """Nothing in use; everything old; the rest fits or is in use; the oldest first."""
    chosen = choose(found, in_use, before, max_bytes)

    left = [each for each in found if each not in chosen and each.identity not in in_use]
    total = sum(each.size_bytes for each in found if each not in chosen)
    assert not [each for each in chosen if each.identity in in_use]
    assert not [each for each in left if each.modified < before]
    assert total <= max_bytes or not left
    assert max((each.modified for each in chosen), default=0) <= min((each.modified for each in left), default=100)


def test_an_open_file_is_known_by_its_inode(tmp_path: Path) -> None:
    """Not by its name, which a rotation changes."""
    path = tmp_path / "app.log"
    with path.open("wb"):
        path = path.rename(tmp_path / "app.log.1")
        status = path.stat()

        assert (status.st_dev, status.st_ino) in open_files()
    assert (status.st_dev, status.st_ino) not in open_files()
