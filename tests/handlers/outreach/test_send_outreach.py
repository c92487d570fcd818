"""Blasts through a real SMTP server: recipients, exclusions and figures."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from handlers.outreach import blast
from handlers.outreach.payloads import Outreach
from mayfly import enqueue
from mayfly.testing import Drained, drain, enqueued_jobs
from tests.handlers.mail.servers import Post
from tests.handlers.outreach.audience import NOON, Tables, write
from tests.hypothesis_profiles import in_full

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def fan_out(slice_after: int | None = None) -> Drained:
    """Without an account, so the mails themselves are dead."""
    return drain(raises=False, slice_after=slice_after)


def recipients() -> list[str]:
    return [each.payload["to"] for each in enqueued_jobs("send_email")]


def blasts(tables: Tables) -> list[tuple[Any, ...]]:
    asked = "state, mails, suppressed, written, unfit, sent, failed, cancelled"
    return [tuple(row) for row in tables.rows(f"SELECT {asked} FROM app_blasts ORDER BY job_id")]


def test_a_blast_reaches_the_whole_audience(tables: Tables, post: Post) -> None:
    """Once each, with an unsubscribe link; after the last mail the figures are stored."""
    tables.people(["ann@example.com", "Bob@Example.com", "carl@example.com", "dora@example.com"])
    tables.people(["BOB@example.com ", "no address", "evil@example.com\nBcc: all@example.com"])
    tables.suppress("carl@example.com", "bounced")
    write()

    drained = drain()

    assert drained.outcomes == {"done": 5}
    assert sorted(post.counts.items()) == [("Bob@Example.com", 1), ("ann@example.com", 1), ("dora@example.com", 1)]
    assert blasts(tables) == [("sent", 3, 1, 1, 2, 3, 0, 0)]
    message = dict(post.taken)["ann@example.com"]
    link = message["List-Unsubscribe"].strip("<>")
    assert message["Subject"] == "Hello Number 1"
    assert message.get_content().strip() == f"Dear Number 1, {link}"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


@pytest.mark.every_database
def test_an_audience_may_be_a_board_or_a_list(tables: Tables) -> None:
    """Duplicates in a list get one mail. On every database."""
    tables.people(["ann@example.com", "bob@example.com"], board=7)
    tables.people(["carl@example.com"], board=8)
    listed = ["eve@fair.example", "Eve@Fair.example", "joe@fair.example"]
    tables.insert("app_recipients", [{"list_key": "fair", "email": each, "name": ""} for each in listed])
    tables.insert("app_recipients", [{"list_key": "other", "email": "x@fair.example", "name": ""}])
    write(to={"board": 7})
    write(blast="fair", to={"list": "fair"})

    fan_out()

    assert recipients() == ["ann@example.com", "bob@example.com", "eve@fair.example", "joe@fair.example"]


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("wanted", "reached"),
    [
        ({}, ["ann@acme.example", "bob@acme.example", "eve@other.example"]),
        ({"company": ["ACME"], "email_status": ["valid"]}, ["ann@acme.example"]),
        ({"city": ["Köln", "bonn"]}, ["ann@acme.example", "bob@acme.example"]),
        ({"import_job": 41}, ["eve@other.example"]),
        ({"country": ["Nowhere"]}, []),
    ],
)
def test_an_audience_may_be_prospects(tables: Tables, wanted: dict[str, Any], reached: list[str]) -> None:
    """All fields of a filter must fit; not merged ones, those without address or who opted out. On every database."""
    acme = {"company": "Acme", "city": "Köln"}
    prospect(tables, email="ann@acme.example", email_status="valid", **acme)
    prospect(tables, email="bob@acme.example", company="Acme", city="Bonn")
    prospect(tables, email="eve@other.example", import_id=41)
    prospect(tables, email="twin@acme.example", merged_into=1, **acme)
    prospect(tables, email="gone@acme.example", email_status="opted out", **acme)
    prospect(tables, name="Nobody", **acme)
    write(to={"prospects": wanted})

    fan_out()

    assert recipients() == reached


@pytest.mark.every_database
def test_templates_use_the_fields_of_each_recipient(tables: Tables, post: Post) -> None:
    """Of prospects and of lists; the payload has only the used ones. On every database."""
    text = "{{ company }} in {{ city or 'your city' }}"
    prospect(tables, email="ann@acme.example", name="Ann", company="Acme", city="Köln", title="CTO")
    prospect(tables, email="bob@other.example", company="Other <b>")
    rows = [{"list_key": "fair", "email": f"{each}@fair.example", "name": each, "fields": f'{{"stand": "B {each}"}}'}
            for each in ("1", "2")]  # fmt: skip
    tables.insert("app_recipients", rows)
    write(to={"prospects": {}}, text=text, html="<p>{{ company }}</p>")
    write(blast="fair", to={"list": "fair"}, text="{{ name }}: {{ stand }}")

    drain()

    bodies = {
        recipient: message.get_body(("plain",)).get_content().strip()  # type: ignore[union-attr]
        for recipient, message in post.taken
    }
    assert bodies == {
        "ann@acme.example": "Acme in Köln", "bob@other.example": "Other <b> in your city",
        "1@fair.example": "1: B 1", "2@fair.example": "2: B 2",
    }  # fmt: skip
    html = dict(post.taken)["bob@other.example"].get_body(("html",))
    assert html is not None
    assert "Other &lt;b&gt;" in html.get_content()
    assert enqueued_jobs("send_email")[0].payload["context"] == {"name": "Ann", "company": "Acme", "city": "Köln"}


def prospect(tables: Tables, **columns: Any) -> None:
    tables.insert("app_prospects", [{**columns, "created_at": NOON, "updated_at": NOON}])


def test_an_extended_blast_mails_new_recipients_only(tables: Tables) -> None:
    """The second job with the same name and texts."""
    tables.people(["ann@example.com", "bob@example.com"])
    write()
    fan_out()
    tables.people(["carl@example.com", "ANN@example.com"])
    write()
    fan_out()

    assert recipients() == ["ann@example.com", "bob@example.com", "carl@example.com"]
    assert [row[1:5] for row in blasts(tables)] == [(2, 0, 0, 0), (1, 0, 3, 0)]


@pytest.mark.every_database
def test_recipients_of_other_blasts_may_be_excluded(tables: Tables) -> None:
    """By the name of the blast. On every database."""
    tables.people(["ann@example.com"])
    write(blast="winter")
    fan_out()
    tables.people(["bob@example.com"])
    write(without=["autumn", "winter"])
    fan_out()

    assert recipients() == ["ann@example.com", "bob@example.com"]


@pytest.mark.every_database
def test_a_blast_is_closed_once(tables: Tables) -> None:
    """A repeated close_blast changes nothing. On every database."""
    tables.people(["ann@example.com"])
    write()
    fan_out()
    before = blasts(tables)
    [closing] = enqueued_jobs("close_blast")
    enqueue("close_blast", {**closing.payload, "batch": {**closing.payload["batch"], "done": 7}})

    drain()

    assert blasts(tables) == before == [("sent", 1, 0, 0, 0, 0, 1, 0)]


@SQLITE
def test_a_name_has_one_text(tables: Tables) -> None:
    """Otherwise the text that a recipient got would be unknown."""
    tables.people(["ann@example.com"])
    write()
    fan_out()
    write(subject="Something else")

    drained = fan_out()

    assert drained.outcomes == {"dead": 1}
    assert "the blast spring exists with another text" in str(drained.runs[0].outcome.error)
    assert len(blasts(tables)) == 1


def test_a_blast_continues_from_its_checkpoint(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any number of slices, with the figures of one run."""
    monkeypatch.setattr(blast, "STEP_SIZE", 2)
    people = [f"p{number}@example.com" for number in range(7)]
    tables.people([*people, people[0].upper(), people[6].upper()])
    write()

    drained = fan_out(slice_after=1)

    assert drained.outcomes["sliced"] == 5
    assert sorted(recipients()) == people
    assert blasts(tables) == [("sent", 7, 0, 2, 0, 0, 7, 0)]


def test_a_repeated_step_enqueues_nothing_twice(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kill between the commit and the checkpoint; the figures are the same."""
    monkeypatch.setattr(blast, "STEP_SIZE", 3)
    tables.people(f"{number}@example.com" for number in range(5))
    write()
    fan_out()
    before = sorted(recipients())
    tables.execute(
        "UPDATE mayfly_jobs SET status = 'pending', checkpoint = NULL, finished_at = NULL"
        " WHERE type = 'send_outreach'"
    )
    tables.execute("DELETE FROM mayfly_batches")
    tables.execute("UPDATE app_blasts SET state = 'sending', mails = 0")

    fan_out()

    assert sorted(recipients()) == before
    assert [row[:5] for row in blasts(tables)] == [("sent", 5, 0, 0, 0)]


@SQLITE
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"subject": "{{ nobody }}"}, "the template of the subject cannot be rendered: 'nobody' is undefined"),
        ({"html": "{% for"}, "the template of the html cannot be rendered"),
        ({"to": {"prospects": {}}, "text": "{{ phone }}"}, "the text cannot be rendered: 'phone' is undefined"),
        ({"subject": "{{ '\n' }}".replace("\n", "\\n")}, "not one line of printable"),
    ],
)
def test_an_invalid_template_fails_the_blast(tables: Tables, change: dict[str, Any], reason: str) -> None:
    """Instead of every single mail."""
    tables.people(["ann@example.com"])
    write(**change)

    drained = fan_out()

    assert (drained.outcomes, recipients()) == ({"dead": 1}, [])
    assert reason in str(drained.runs[0].outcome.error)


@SQLITE
@pytest.mark.parametrize("missing", ["UNSUBSCRIBE_URL", "UNSUBSCRIBE_SECRET", "SMTP_ACCOUNTS"])
def test_a_blast_needs_unsubscribe_links_and_accounts(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Otherwise it is cancelled."""
    monkeypatch.delenv(missing)
    tables.people(["ann@example.com"])
    write()

    assert fan_out().outcomes == {"cancelled": 1}


@SQLITE
@pytest.mark.parametrize(
    "url", ["https://shop.example/leave", "ftp://x/{token}", "https://x/ {token}", "https://x/{token}" + "x" * 200]
)
def test_an_invalid_unsubscribe_url_is_final(tables: Tables, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Before the first mail."""
    monkeypatch.setenv("UNSUBSCRIBE_URL", url)
    write()

    drained = fan_out()

    assert drained.outcomes == {"dead": 1}
    assert "UNSUBSCRIBE_URL must begin with" in str(drained.runs[0].outcome.error)


@in_full(50)
@given(
    st.dictionaries(
        st.sampled_from(["blast", "to", "subject", "text", "html", "reply_to", "without", "bcc"]),
        st.none()
        | st.text()
        | st.integers()
        | st.sampled_from(["spring", "everybody", "ann@example.com"])
        | st.dictionaries(st.sampled_from(["board", "list", "prospects"]), st.integers() | st.text() | st.just({}))
        | st.lists(st.text(max_size=3), max_size=3),
    )
)
def test_any_payload_is_refused_or_valid(payload: dict[str, Any]) -> None:
    """A name that fits into keys, one audience, a text."""
    try:
        outreach = Outreach.model_validate(payload)
    except ValidationError:
        return

    assert "\x00" not in (outreach.text or "") + (outreach.html or "")
    assert outreach.text or outreach.html
    assert outreach.subject.isprintable()
    assert 1 <= len(outreach.blast) <= 60
    assert outreach.blast.isascii()
