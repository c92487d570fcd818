"""Match keys: what different spellings of a mail, name or company have in common."""

import pytest

from handlers.prospects.match_keys import (
    company_key,
    is_mail,
    keys_of,
    mail_key,
    name_key,
    phone_key,
    profile_key,
)


@pytest.mark.parametrize(
    ("mail", "key"),
    [
        ("Ann.Miller+news@GMail.com", "annmiller@gmail.com"),
        ("a.n.n@googlemail.com", "ann@gmail.com"),
        ("Ann.Miller+x+y@example.com", "ann.miller@example.com"),
        ("+tag@example.com", "+tag@example.com"),
        ("...@gmail.com", "...@gmail.com"),
        ("ÄNN@example.com", "änn@example.com"),
        ("no mail", None),
        ("", None),
        (None, None),
    ],
)
def test_addresses_of_one_mailbox_have_one_key(mail: str | None, key: str | None) -> None:
    """Dots are ignored at Gmail only; a tag everywhere, unless nothing else is left."""
    assert mail_key(mail) == key


@pytest.mark.parametrize("text", ["a@b", "a@b.c", "@b.example", "a b@c.example", "a@b@c.example", "<a@b.example>"])
def test_invalid_addresses(text: str) -> None:
    """Without a dot, or with other characters around it."""
    assert is_mail("a@b.example")
    assert not is_mail(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Miller, Ann", "ann  MILLER"), ("Dr. Ann Miller", "Ann Miller PhD"), ("José Núñez", "Jose Nunez")],
)
def test_names_ignore_order_case_accents_and_titles(one: str, other: str) -> None:
    """In any combination."""
    assert name_key(one) == name_key(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [("ACME Inc.", "Acme"), ("Müller & Söhne GmbH & Co. KG", "Muller und Sohne"), ("The Co", "the co")],
)
def test_companies_ignore_their_legal_form(one: str, other: str) -> None:
    """Unless nothing else is left."""
    assert company_key(one) == company_key(other) != ""


def test_a_name_without_a_company_has_no_key() -> None:
    """Keys fit into their columns for fields of any length."""
    alone = keys_of({"email": None, "name": "Ann Miller", "company": " "})
    long = keys_of({"email": None, "name": "ß" * 190, "company": "ﷺ" * 190})

    assert alone == {"email_key": None, "by_name": None, "by_company": None}
    assert all(len(key) <= 190 for key in long.values() if key)


@pytest.mark.parametrize(
    ("phone", "key"),
    [
        ("+49 (221) 123-4567", "492211234567"),
        ("0049 221 1234567", "492211234567"),
        ("0221/1234567", "2211234567"),
        ("ext. 12345", None),
        (None, None),
    ],
)
def test_phones_are_compared_by_their_digits(phone: str | None, key: str | None) -> None:
    """An extension identifies no person."""
    assert phone_key(phone) == key


@pytest.mark.parametrize(
    ("profile", "key"),
    [
        ("https://www.LinkedIn.com/in/Ann-Miller/?trk=x", "linkedin.com/in/ann-miller"),
        ("linkedin.com/in/ann-miller", "linkedin.com/in/ann-miller"),
        ("https://linkedin.com/", None),
        ("see my card", None),
        (None, None),
    ],
)
def test_profiles_are_compared_by_host_and_path(profile: str | None, key: str | None) -> None:
    """A host alone identifies no person."""
    assert profile_key(profile) == key
