"""Compute the keys by which prospects are compared: normalized address, name, company, phone and profile. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

MAIL = re.compile(r"[^\s@\"<>(),;:\\\[\]]{1,64}@[^\s@\"<>(),;:\\\[\]]+\.[^\s@.\"<>(),;:\\\[\]]{2,}")
GMAIL = ("gmail.com", "googlemail.com")  # two domains of one service, which ignores dots
MAX_PART_LENGTH = 90  # characters of each of the two parts of a key
SEPARATOR = " | "
MIN_PHONE_DIGITS = 7  # a shorter number is an extension
TITLES = frozenset(
    {"mr", "mrs", "ms", "miss", "dr", "prof", "sir", "herr", "frau", "dipl", "ing", "phd", "mba", "msc", "bsc"}
)
LEGAL_FORMS = frozenset({
    "ab", "ag", "as", "bv", "co", "corp", "corporation", "company", "ev", "gmbh", "inc", "incorporated", "kg",
    "limited", "llc", "llp", "ltd", "nv", "oy", "oyj", "plc", "sa", "sarl", "sas", "se", "spa", "srl", "ug",
    "and", "the", "und",
})  # fmt: skip

_PROFILE = re.compile(r"(?:https?://)?(?:www\.)?([^\s/?#:]+/[^\s?#]*[^\s?#/])/*(?:[?#].*)?")
_NO_LETTER = re.compile(r"[^\w]+|_")


def is_mail(text: str) -> bool:
    return len(text) <= 190 and MAIL.fullmatch(text) is not None


def mail_key(mail: str | None) -> str | None:
    """The mailbox of an address: without case, the tag after a plus, and the dots at Gmail."""
    if not mail or not is_mail(mail):
        return None
    local, _, domain = mail.casefold().rpartition("@")
    local = local.partition("+")[0] or local
    if domain in GMAIL:
        local, domain = local.replace(".", "") or local, GMAIL[0]
    return f"{local}@{domain}"[:190]


def name_key(name: str | None) -> str:
    """Sort the words: "Miller, Ann" equals "Ann Miller"."""
    return _joined(sorted(each for each in _words(name) if each not in TITLES))


def company_key(company: str | None) -> str:
    words = _words(company)
    return _joined([each for each in words if each not in LEGAL_FORMS] or words)


def phone_key(phone: str | None) -> str | None:
    """The digits without leading zeros. Numbers with and without the country code differ."""
    digits = "".join(each for each in phone or "" if each.isdecimal()).lstrip("0")
    return digits if len(digits) >= MIN_PHONE_DIGITS else None


def profile_key(profile: str | None) -> str | None:
    """A URL without scheme, www, case, query and final slash; None without a path."""
    found = _PROFILE.fullmatch((profile or "").strip().casefold())
    return found[1] if found else None


def keys_of(prospect: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the keys by column. A name without a company, or a company without a name, has none."""
    name, company = name_key(prospect["name"]), company_key(prospect["company"])
    has_both = bool(name and company)
    return {
        "email_key": mail_key(prospect["email"]),
        "by_name": f"{name}{SEPARATOR}{company}" if has_both else None,
        "by_company": f"{company}{SEPARATOR}{name}" if has_both else None,
    }


def _words(text: str | None) -> list[str]:
    """Convert to lower case without accents; everything but letters and digits separates words."""
    plain = (text or "").casefold()
    if not plain.isascii():
        apart = unicodedata.normalize("NFKD", plain)
        plain = "".join(each for each in apart if not unicodedata.combining(each))
    return _NO_LETTER.sub(" ", plain).split()


def _joined(words: Iterable[str]) -> str:
    return " ".join(words)[:MAX_PART_LENGTH].rstrip()
