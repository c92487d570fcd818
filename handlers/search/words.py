"""What counts as a word, the same on every database. Pure.

The index holds what is made here and so does every query: letters and digits in lower case, without accents. So
nothing that somebody types can be part of a query's syntax, and no database has a say in what a word is.
"""

import re
import unicodedata

LONGEST_WORD = 64  # characters; servers leave out words that are longer than 84
SNIPPET_LENGTH = 120

_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    return [word[:LONGEST_WORD] for word in _WORD.findall(_folded(text))]


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(each for each in parts if not unicodedata.combining(each))


def snippet(text: str, wanted: list[str]) -> str:
    """Some of the text, around the first place that has one of the words; on one line."""
    flat = " ".join(text.split())
    found = (each.start() for each in re.finditer(r"\w+", flat) if set(words_of(each[0])) & set(wanted))
    start = max(0, next(found, 0) - SNIPPET_LENGTH // 3)
    end = start + SNIPPET_LENGTH
    before, after = "…" if start else "", "…" if end < len(flat) else ""
    return f"{before}{flat[start:end].strip()}{after}"
