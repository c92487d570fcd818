"""docs/explanation/scale.md: its table has measured figures only, and its two homes divide the lanes."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from scripts.benchmark.cli import PAGE_RESULTS, SCALE_PAGE, filled_scale_page
from scripts.benchmark.figures import read_records
from tests.docs.consoles import page_named

PAGE = page_named("explanation/scale.md")
DATABASES = {"mysql://mayfly:secret@db1/fast": "fast.db", "mysql://mayfly:secret@db2/bulk": "bulk.db"}
BULK_ENGINE = "mysql+pymysql://mayfly:secret@db2/bulk"
JOBS = "SELECT id, type, lane, status FROM mayfly_jobs"


def test_the_figures_are_measured() -> None:
    """`scripts/bench --write-docs` would not change the page."""
    page = SCALE_PAGE.read_text()

    assert filled_scale_page(page, read_records(PAGE_RESULTS)) == page


def test_two_homes_divide_the_lanes(tmp_path: Path) -> None:
    """With the files and commands of the page, on SQLite: each database has the jobs of its own home."""
    files = re.findall(r"^```\w+\n# (\S+)\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(local(text, tmp_path))
    [commands] = re.findall(r"^```sh\nexport SHOP=/srv/shop\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)

    shell(tmp_path, commands)
    shell(tmp_path, f"MAYFLY_HOME=$SHOP/fast {sys.executable} $SHOP/enqueue_report.py")
    shell(tmp_path, "MAYFLY_HOME=$SHOP/fast mayfly dispatch && MAYFLY_HOME=$SHOP/bulk mayfly dispatch")

    assert jobs_in(tmp_path, "fast") == [("send_email", "email", "done")]
    assert jobs_in(tmp_path, "bulk") == [("build_report", "reports", "done")]
    assert "sent to anna@example.com" in (tmp_path / "fast" / "logs" / "dispatcher.log").read_text()
    assert "built 2026-11" in (tmp_path / "bulk" / "logs" / "dispatcher.log").read_text()


def local(text: str, directory: Path) -> str:
    for server, name in {BULK_ENGINE: "bulk.db", **DATABASES}.items():  # the longest first
        text = text.replace(server, f"sqlite:///{directory / name}")
    return text


def shell(directory: Path, commands: str) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin",
        "HOME": str(directory),
        "SHOP": str(directory),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "STATE_DIR": str(directory / "state"),
        "MAX_LOAD": "0",
    }
    ran = subprocess.run(
        ["bash", "-euc", commands], env=environment, cwd=directory, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


def jobs_in(directory: Path, name: str) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(directory / f"{name}.db")) as connection:
        return [(type_name, lane, status) for _id, type_name, lane, status in connection.execute(JOBS)]
