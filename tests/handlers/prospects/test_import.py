"""Imports of files: prospects, rejected records with reasons, and no duplicates."""

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.prospects import csv_import
from mayfly import enqueue, json_text
from mayfly.client import current_app
from mayfly.errors import BadPayload
from mayfly.testing import Drained, drain, run_inline
from tests.handlers.prospects.tables import prospects, rows
from tests.hypothesis_profiles import in_full

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

Put = Callable[..., Drained]


@pytest.fixture
def put(platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Write a file and import it."""
    monkeypatch.setenv("IMPORT_FILES", str(tmp_path))
    monkeypatch.setattr(csv_import, "STEP_ROWS", 3)

    def write_and_import(content: str | bytes, slice_after: int | None = None, **payload: Any) -> Drained:
        (tmp_path / "people.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        enqueue("import_prospects", {"path": "people.csv", **payload})
        return drain(slice_after=slice_after, raises=False)

    return write_and_import


def last(drained: Drained) -> Any:
    return drained.runs[-1]


def put_back(job_id: int, state: Any) -> None:
    """Make the job pending again with this checkpoint, as if its runner had been killed."""
    checkpoint = None if state is None else json_text.encode(state)
    again = "UPDATE mayfly_jobs SET status = 'pending', worker_id = NULL, checkpoint = :checkpoint WHERE id = :id"
    current_app().database.run(lambda own: own.execute(again, {"id": job_id, "checkpoint": checkpoint}))


def rejected(folder: Path, drained: Drained) -> list[list[str]]:
    with (folder / last(drained).result["rejects"]).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


@pytest.mark.every_database
def test_rows_become_prospects_and_bad_ones_are_rejected(platform: str, put: Put, tmp_path: Path) -> None:
    """In slices of three rows; each bad row with line, reason and fields. On every database."""
    lines = ["E-Mail,Vorname,Nachname,Firma,Stadt"]
    lines += [f"p{number}@example.com,Ann,Miller {number},Acme,Köln" for number in range(8)]
    lines += ["no address,Bob,,,", "c@example.com,Cid", ",,,Acme,", ",Dora,,,", "", f"{'e' * 190}@example.com,E,,,"]

    drained = put("\n".join(lines), slice_after=1)

    assert drained.outcomes == {"sliced": 5, "done": 1}
    assert last(drained).result["imported"] == 9
    found = prospects(platform, "line, email, name, company, city")
    assert found[0] == (2, "p0@example.com", "Ann Miller 0", "Acme", "Köln")
    assert [row[0] for row in found] == [*range(2, 10), 13]
    assert rejected(tmp_path, drained) == [
        ["10", "its email address is not valid", "no address", "Bob", "", "", ""],
        ["11", "it has 2 fields, the header has 5", "c@example.com", "Cid"],
        ["12", "it has neither an email address nor a name", "", "", "", "Acme", ""],
        ["15", "its email has 202 characters; the maximum is 190", f"{'e' * 190}@example.com", "E", "", "", ""],
    ]


def test_a_repeated_run_adds_nothing(platform: str, put: Put, tmp_path: Path) -> None:
    """From the beginning or from any checkpoint: neither a row nor a reject is duplicated."""
    content = "email\n" + "".join(f"p{number}@example.com\nbad {number}\n" for number in range(6))
    drained = put(content, slice_after=2)
    job_id = drained.runs[0].job.id
    before = prospects(platform), rejected(tmp_path, drained)
    states = [each.state for each in drained.runs[:-1]]

    for state in [None, *states]:
        put_back(job_id, state)
        assert last(drain()).result == last(drained).result

    assert (prospects(platform), rejected(tmp_path, drained)) == before
    assert len(before[0]) == len(before[1]) == 6


@SQLITE
def test_a_repeated_step_rejects_nothing_twice(put: Put, tmp_path: Path) -> None:
    """It writes the same bytes to the same offset."""
    put("email\n")
    (tmp_path / "people.csv").write_text("email\n" + "".join(f"bad {number}\n" for number in range(9)))
    runs = [run_inline("import_prospects", {"path": "people.csv"}, slice_after=1) for _ in range(2)]

    last = run_inline("import_prospects", {"path": "people.csv"}, state=runs[0].state)

    rejects = (tmp_path / last.result["rejects"]).read_text().splitlines()
    assert rejects[1:] == [f"{line},its email address is not valid,bad {line - 2}" for line in range(2, 11)]


@SQLITE
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfemail,name\na@x.example,\xc3\x84nn\n", [("a@x.example", "Änn")]),
        ("email;name\na@x.example;Änn\n".encode("utf-16"), [("a@x.example", "Änn")]),
        ("email\tname\na@x.example\tÄnn\n".encode("cp1252"), [("a@x.example", "Änn")]),
        (b'email,name\na@x.example,"Ann\nvan ""X"""\n', [("a@x.example", 'Ann van "X"')]),
        (b"email\na@x.example\nb@x.example", [("a@x.example", None), ("b@x.example", None)]),
        (b"email,email,name,name\n,b@x.example,Ann,Bob\n", [("b@x.example", "Ann")]),
        (b"email,name\na@x.example,Ann,,\nb@x.example,Bob,,x\n", [("a@x.example", "Ann")]),
        (b"email,name\na@x.example,A\0nn\nb@x.example,Bob\n", [("b@x.example", "Bob")]),
        (b"email,name\n", []),
        (b"\r\n\r\nemail,name\r\na@x.example,Ann\r\n", [("a@x.example", "Ann")]),
        (b"email,notes\na@x.example," + b"x" * 5_000_000 + b"\nb@x.example,\n", [("b@x.example", None)]),
    ],
    ids=["bom", "utf-16", "cp1252", "quotes across lines", "one column", "duplicate headers", "ragged", "nul",
         "header only", "empty lines", "5 MB"],
)  # fmt: skip
def test_odd_files(platform: str, put: Put, content: bytes, expected: list[tuple[str, str | None]]) -> None:
    """Readable records are imported."""
    drained = put(content)

    assert drained.outcomes == {"done": 1}
    assert prospects(platform, "email, name") == expected


@SQLITE
@pytest.mark.parametrize(
    ("content", "payload", "reason"),
    [
        (b"", {}, "the file is empty: it has no header"),
        (b"\xef\xbb\xbf", {}, "the file is empty"),
        (b"a,b\n1,2\n", {}, "no column is known as an email address or a name: 'a', 'b'; name it"),
        (b"email\n", {"mapping": {"Mail 2": "email"}}, "names a column that the header does not have: 'mail 2'"),
        (b'"email\nx\n', {}, "its header cannot be read: unexpected end of data"),
        (b"email" + b",x" * 2000, {}, "its header has 2,001 columns; the maximum is 2,000"),
        (b"x", {"path": "../secret.csv"}, "there is no file '../secret.csv' in IMPORT_FILES"),
        (b"x", {"path": "link.csv"}, "there is no file 'link.csv' in IMPORT_FILES"),
        (b"x", {"path": "/etc/passwd"}, "there is no file '/etc/passwd' in IMPORT_FILES"),
        (b"x", {"path": "."}, "there is no file '.' in IMPORT_FILES"),
        (b"x", {"path": "loop.csv"}, "there is no file 'loop.csv' in IMPORT_FILES"),
        (b"x", {"path": "x" * 300}, "xxx' in IMPORT_FILES"),
    ],
)
def test_an_unusable_file_is_final(
    put: Put, tmp_path: Path, content: bytes, payload: dict[str, Any], reason: str
) -> None:
    """With an error message, at once."""
    (tmp_path / "link.csv").symlink_to("/etc/passwd")
    (tmp_path / "loop.csv").symlink_to("loop.csv")

    drained = put(content, **payload)

    assert drained.outcomes == {"dead": 1}
    assert reason in str(last(drained).outcome.error)


@SQLITE
def test_the_payload_overrides_detection(platform: str, put: Put) -> None:
    """Columns, ignored ones, delimiter and encoding."""
    drained = put(
        "wer;email;name\nä@x.example;b@x.example;Ann\n".encode(),
        mapping={"WER": "email", "email": None},
        delimiter=";",
        encoding="utf-8",
    )

    assert drained.outcomes == {"done": 1}
    assert prospects(platform, "email, name") == [("ä@x.example", "Ann")]


@SQLITE
@pytest.mark.parametrize("change", ["appended", "touched"])
def test_a_file_that_changes_between_two_slices_is_noticed(put: Put, tmp_path: Path, change: str) -> None:
    """By size and time: the checkpoint's offset is no longer valid."""
    path = tmp_path / "people.csv"
    put("email\n" + "a@x.example\n" * 9)
    run = run_inline("import_prospects", {"path": "people.csv"}, slice_after=1)
    if change == "appended":
        with path.open("a") as file:
            file.write("b@x.example\n")
    else:
        os.utime(path, ns=(1, 1))

    again = run_inline("import_prospects", {"path": "people.csv"}, state=run.state, raises=False)

    assert again.kind == "dead"
    assert "the file was changed during the import, at line 4: 3 rows of the old file are imported" in str(
        again.outcome.error
    )


@SQLITE
def test_a_file_that_grows_while_it_is_read_is_noticed(
    platform: str, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the rows of the step are stored."""
    put("email\na@x.example\n")
    read = csv_import._next_step

    def read_and_append(*arguments: Any) -> Any:
        with (tmp_path / "people.csv").open("a") as file:
            file.write("b@x.example\n")
        return read(*arguments)

    monkeypatch.setattr(csv_import, "_next_step", read_and_append)
    again = run_inline("import_prospects", {"path": "people.csv"}, raises=False)

    assert "the file was changed during the import, at line 1: 0 rows" in str(again.outcome.error)
    assert prospects(platform, "email") == [("a@x.example",)]


@SQLITE
def test_progress_is_written(platform: str, put: Put) -> None:
    """In bytes, because the number of rows is unknown."""
    drained = put("email\na@x.example\nbad\n")

    [(progress,)] = rows(platform, "SELECT progress FROM mayfly_jobs WHERE id = :id", id=drained.runs[0].job.id)
    assert progress == '{"done":22,"total":22,"text":"bytes: 1 rows imported, 1 rejected"}'


@SQLITE
def test_without_a_directory_jobs_are_cancelled(platform: str) -> None:
    """The integration is not configured."""
    enqueue("import_prospects", {"path": "people.csv"})

    assert drain().outcomes == {"cancelled": 1}


@SQLITE
@in_full(50)
@given(
    content=st.binary(max_size=300) | st.text('email,;"\n\r\t|name@x.\0é', max_size=200).map(str.encode),
    payload=st.fixed_dictionaries(
        {"path": st.sampled_from(["people.csv", "\0", "..", "", "x" * 600])},
        optional={
            "mapping": st.dictionaries(
                st.text(max_size=5), st.sampled_from(["email", "name", None, "x"]), max_size=2
            ),
            "encoding": st.sampled_from(["utf-8", "utf-16-le", "cp1252", "rot13"]),
            "delimiter": st.sampled_from([",", ";", "\n"]),
            "more": st.none(),
        },
    ),
)
def test_any_file_and_payload_is_refused_or_handled(put: Put, content: bytes, payload: dict[str, Any]) -> None:
    """Never an unexpected error."""
    try:
        drained = put(content, **payload)
    except BadPayload:
        return

    assert set(drained.outcomes) <= {"done", "dead"}
    assert last(drained).error is None
