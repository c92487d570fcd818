"""What two ways of writing the same mail, name or company have in common, and what two others have not."""

import pytest

from handlers.prospects.match_keys import company_key, is_mail, keys_of, mail_key, name_key


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
def test_mails_that_arrive_at_the_same_place_have_one_key(mail: str | None, key: str | None) -> None:
    """Dots are nothing at Gmail alone; a tag is nothing anywhere, unless it is all there is."""
    assert mail_key(mail) == key


@pytest.mark.parametrize("text", ["a@b", "a@b.c", "@b.example", "a b@c.example", "a@b@c.example", "<a@b.example>"])
def test_what_is_no_mail(text: str) -> None:
    """Neither is one without a dot, nor with anything around it."""
    assert is_mail("a@b.example")
    assert not is_mail(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Miller, Ann", "ann  MILLER"), ("Dr. Ann Miller", "Ann Miller PhD"), ("José Núñez", "Jose Nunez")],
)
def test_names_without_what_does_not_matter(one: str, other: str) -> None:
    """The order of words, case, accents and titles."""
    assert name_key(one) == name_key(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [("ACME Inc.", "Acme"), ("Müller & Söhne GmbH & Co. KG", "Muller und Sohne"), ("The Co", "the co")],
)
def test_companies_without_their_legal_form(one: str, other: str) -> None:
    """Unless there is nothing else."""
    assert company_key(one) == company_key(other) != ""


def test_a_name_alone_says_too_little() -> None:
    """Whoever has no company is compared by mail alone; keys fit into their columns, however long the fields are."""
    alone = keys_of({"email": None, "name": "Ann Miller", "company": " "})
    long = keys_of({"email": None, "name": "ß" * 190, "company": "ﷺ" * 190})

    assert alone == {"email_key": None, "by_name": None, "by_company": None}
    assert all(len(key) <= 190 for key in long.values() if key)
