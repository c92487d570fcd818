"""CSV files of all kinds: records, their offsets, and detection of the format."""

import io
import random

import pytest

from handlers.prospects.csv_format import columns_of, delimiter_of, detect_format, encoding_of
from handlers.prospects.csv_records import MAX_RECORD_BYTES, CsvFormat, CsvRecord, CsvRecords, FilePosition
from mayfly import Dead

START = FilePosition(0, 0)


def read(content: bytes, form: CsvFormat, place: FilePosition = START) -> list[CsvRecord]:
    return list(CsvRecords(io.BytesIO(content), form, place))


def form(encoding: str = "utf-8", newline: str = "\n", delimiter: str = ",") -> CsvFormat:
    return CsvFormat(encoding, newline, delimiter)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_reading_continues_after_any_record(encoding: str, newline: str) -> None:
    """In every encoding and with every line end."""
    # The bytes of a line end also appear between those of ਅ and Ā.
    lines = ["a,b", 'é,"two', 'lines ""quoted"""', "", "äö,x" if encoding == "cp1252" else "ਅĀਅ,x", "last,one"]
    content = newline.join(lines).encode(encoding)
    asked = form(encoding, "\r" if newline == "\r" else "\n")
    records = CsvRecords(io.BytesIO(content), asked, START)
    whole, places = [], []
    for record in records:
        whole.append(record)
        places.append(records.position)

    assert [each.fields[0] for each in whole if each.fields] == ["a", "é", lines[4][:-2], "last"]
    assert [each.line for each in whole] == [1, 2, 4, 5, 6]
    for number, place in enumerate(places, 1):
        assert read(content, asked, place) == whole[number:]


def test_an_unreadable_record_costs_one_line() -> None:
    """An unclosed or misplaced quote, invalid bytes: the next line is read again."""
    content = b'a,b\n1,"never closed\n2,fine\n3,"x"y\n4,fine\n5,\xff\xfe\n6,fine\n'

    found = read(content, form())

    assert [each.fields[0] for each in found if each.problem is None] == ["a", "2", "4", "6"]
    assert next((each.line, each.fields) for each in found if each.problem) == (2, ['1,"never closed'])
    assert [each.line for each in found if each.problem] == [2, 4, 6]
    assert [each.problem for each in found][5] == "it is not valid utf-8"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize(
    ("field", "lines"),
    [("x" * 5_000_000, 1), (f'"{"x" * 5_000_000}"', 1), (f'"{("x" * 9_999 + chr(10)) * 500}"', 501)],
    ids=["bare", "quoted", "of many lines"],
)
def test_a_field_of_5_mb_is_not_kept_in_memory(encoding: str, field: str, lines: int) -> None:
    """It is a problem of its record; the next ones are read."""
    content = f"a,b\n1,{field}\n2,fine\n".encode(encoding)

    found = read(content, form(encoding))

    wrong = next(each for each in found if each.problem)
    assert wrong.line == 2
    assert wrong.problem == f"it has more than {MAX_RECORD_BYTES:,} bytes, or an unclosed quote"
    assert max(len(each) for each in wrong.fields) <= 1 << 16
    assert (len(found), found[-1].fields) == (2 + lines, ["2", "fine"])


def test_an_unclosed_quote_does_not_swallow_a_large_file() -> None:
    """All rows after it are read."""
    content = b'a,b\n0,"open\n' + b"".join(b"%d,%s\n" % (number, b"x" * 80) for number in range(20_000))

    found = read(content, form())

    assert [each.line for each in found if each.problem] == [2]
    assert [each.fields[0] for each in found[2:]] == [str(number) for number in range(20_000)]


def test_lines_are_found_wherever_a_chunk_ends() -> None:
    """In UTF-16, for lines of all lengths."""
    rng = random.Random(7)
    texts = ["ਅĀਅ" * rng.randrange(1, 10_000) for _ in range(60)]
    content = "\n".join(texts).encode("utf-16-le")

    assert [each.fields for each in read(content, form("utf-16-le"))] == [[each] for each in texts]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"email\nx", "utf-8"),
        ("email\né".encode("utf-8-sig"), "utf-8"),
        ("email\né".encode(), "utf-8"),
        ("email\né".encode()[:-1], "utf-8"),
        ("email\né, ü".encode("cp1252"), "cp1252"),
        ("email\né".encode("utf-16"), "utf-16-le"),
        (b"\xfe\xff" + "email\né".encode("utf-16-be"), "utf-16-be"),
        ("email\né".encode("utf-16-le"), "utf-16-le"),
        ("email\né".encode("utf-16-be"), "utf-16-be"),
        (b"", "utf-8"),
        (b"a\0b,c\0d\n" * 9, "utf-8"),
    ],
)
def test_encodings_are_detected(content: bytes, encoding: str) -> None:
    """By mark, zeros or validity; a few NULs are no UTF-16, and an incomplete last character is no error."""
    assert encoding_of(content) == encoding


def test_utf_32_is_refused() -> None:
    """Its mark begins like that of UTF-16."""
    with pytest.raises(Dead, match="UTF-32, which is not supported"):
        detect_format("email".encode("utf-32"), {}, None, None)


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        ("email,name", ","),
        ("email;name, first and last;company", ";"),
        ("email\tname", "\t"),
        ("email|name", "|"),
        ('"a;b;c",email,company', ","),
        ("email", ","),
        ("x;y;z", ";"),
        ("", ","),
    ],
)
def test_delimiters_are_detected(header: str, delimiter: str) -> None:
    """By the number of known columns, then by the number of columns."""
    assert delimiter_of(f"{header}\n1,2;3\n", {}) == delimiter


def test_headings_are_known_by_many_names() -> None:
    """And by the payload's mapping, which comes first; None ignores a column."""
    headings = ["E-Mail", "FIRST_NAME", "Nachname", "Firma ", "Fax", "Notes"]

    columns = columns_of(headings, {"fax": "phone", "notes": None})

    assert columns == ["email", "first_name", "last_name", "company", "phone", None]
