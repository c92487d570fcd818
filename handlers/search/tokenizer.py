"""Split text into words, the same way on every database. Pure.

The index and every query contain only words from here: letters and digits in lower case, without accents. So user
input cannot contain query syntax, and the databases' own tokenizers make no difference.
"""

import re
import unicodedata

MAX_WORD_LENGTH = 64  # MySQL does not index words longer than 84 characters
SNIPPET_LENGTH = 120

_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    return [word[:MAX_WORD_LENGTH] for word in _WORD.findall(_folded(text))]


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(each for each in parts if not unicodedata.combining(each))


def snippet(text: str, wanted: list[str]) -> str:
    """A part of the text around the first of the words, on one line."""
    flat = " ".join(text.split())
    found = (each.start() for each in re.finditer(r"\w+", flat) if set(words_of(each[0])) & set(wanted))
    start = max(0, next(found, 0) - SNIPPET_LENGTH // 3)
    end = start + SNIPPET_LENGTH
    before, after = "…" if start else "", "…" if end < len(flat) else ""
    return f"{before}{flat[start:end].strip()}{after}"
