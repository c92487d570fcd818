"""Detect encoding, delimiter and columns of a CSV file. Pure: the beginning of the file is an argument."""

import codecs
import csv
import io
from collections.abc import Mapping, Sequence

from handlers.prospects.csv_records import CsvFormat
from mayfly import Dead

SAMPLE_BYTES = 1 << 20
MAX_COLUMNS = 2000  # the checkpoint contains them all
DELIMITERS = (",", ";", "\t", "|")
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is a prefix of this one
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
SYNONYMS = {
    "email": "email, e mail, mail, email address, e mail address, mail address, work email, emailadresse",
    "name": "name, full name, contact, contact name, person, vollständiger name, ansprechpartner",
    "first_name": "first name, firstname, given name, forename, vorname, prénom",
    "last_name": "last name, lastname, surname, family name, nachname, nom",
    "company": "company, company name, organisation, organization, organisation name, organization name, employer,"
    " account, firma, unternehmen, société, entreprise",
    "title": "title, job title, position, role, funktion, poste",
    "phone": "phone, phone number, telephone, tel, mobile, telefon, téléphone",
    "website": "website, web site, url, homepage, domain, webseite, site web",
    "linkedin": "linkedin, linkedin url, linkedin profile",
    "city": "city, town, location, stadt, ort, ville",
    "country": "country, land, pays",
    "notes": "notes, note, comment, comments, remarks, description, notizen, bemerkung",
}
BY_HEADING = {synonym.strip(): column for column, words in SYNONYMS.items() for synonym in words.split(",")}


def mark_length(sample: bytes) -> int:
    """The length of the byte order mark."""
    return next((len(mark) for mark in BYTE_ORDER_MARKS if sample.startswith(mark)), 0)


def detect_format(
    sample: bytes, mapping: Mapping[str, str | None], encoding: str | None, delimiter: str | None
) -> CsvFormat:
    found = encoding or encoding_of(sample)
    if found == "utf-32":
        raise Dead("the file is in UTF-32, which is not supported: save it as UTF-8")
    text = sample[mark_length(sample) :].decode(found, "replace")
    newline = "\r" if "\r" in text and "\n" not in text else "\n"
    return CsvFormat(found, newline, delimiter or delimiter_of(text, mapping))


def encoding_of(sample: bytes) -> str:
    """Check the byte order mark, then the zeros of UTF-16; else UTF-8 if the sample is valid, or cp1252."""
    for mark, name in BYTE_ORDER_MARKS.items():
        if sample.startswith(mark):
            return name
    pairs = len(sample) // 2
    zeros_first, zeros_second = sample[0::2].count(0), sample[1::2].count(0)
    if zeros_second > pairs * 0.7 and zeros_first < pairs * 0.1:
        return "utf-16-le"
    if zeros_first > pairs * 0.7 and zeros_second < pairs * 0.1:
        return "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # the last character may be incomplete
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def delimiter_of(text: str, mapping: Mapping[str, str | None]) -> str:
    """Return the delimiter that yields the most known columns in the header, then the most columns."""

    def score(delimiter: str) -> tuple[int, int]:
        try:
            headings = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
        except csv.Error:
            return 0, 0
        return sum(each is not None for each in columns_of(headings, mapping)), len(headings)

    return max(DELIMITERS, key=score)


def columns_of(headings: Sequence[str], mapping: Mapping[str, str | None]) -> list[str | None]:
    """Return the field of each column, or None; the payload's mapping takes precedence."""
    mapped = {_plain(heading): column for heading, column in mapping.items()}
    return [mapped[plain] if plain in mapped else BY_HEADING.get(plain) for plain in map(_plain, headings)]


def check_header(headings: Sequence[str], columns: Sequence[str | None], mapping: Mapping[str, str | None]) -> None:
    if len(headings) > MAX_COLUMNS:
        raise Dead(f"its header has {len(headings):,} columns; the maximum is {MAX_COLUMNS:,}")
    missing = {_plain(each) for each in mapping} - set(map(_plain, headings))
    if missing:
        raise Dead(f"the mapping names a column that the header does not have: {_listed(sorted(missing))}")
    if not {"email", "name", "first_name", "last_name"} & set(columns):
        raise Dead(f'no column is known as an email address or a name: {_listed(headings)}; name it in "mapping"')


def _plain(heading: str) -> str:
    return " ".join(heading.casefold().replace("_", " ").replace("-", " ").split())


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(each[:40]) for each in names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown
