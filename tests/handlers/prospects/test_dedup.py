"""Which prospects are merged, what is kept of both, and how it is undone."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.prospects import dedup
from handlers.prospects.similarity import Candidate, SortedNeighbourhood, load_ratio
from mayfly import enqueue
from mayfly.errors import BadPayload
from mayfly.testing import Drained, drain
from tests.handlers.prospects.tables import execute, insert, prospects, rows
from tests.hypothesis_profiles import in_full
from tests.process.installation import CHECKOUT

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
ALL = "1 = 1"


def run(type_name: str, slice_after: int | None = None, **payload: Any) -> Drained:
    enqueue(type_name, payload)
    return drain(slice_after=slice_after, raises=False)


def error_of(drained: Drained) -> str:
    return str(drained.runs[-1].outcome.error)


def test_the_same_mail_is_the_same_person(platform: str) -> None:
    """Without dots, tags and case; the first keeps its address, and the longest of every other field."""
    ann, twin, third, bob = insert(
        platform,
        [
            {"email": "Ann.Miller@gmail.com", "name": "Ann", "phone": "+49 221 1234567"},
            {"email": "annmiller+shop@googlemail.com", "name": "Ann Miller", "city": "Köln"},
            {"email": "ANNMILLER@gmail.com", "name": "A. Miller", "phone": "1234567"},
            {"email": "bob@example.com", "name": "Bob"},
        ],
    )

    drained = run("dedup_prospects")

    assert drained.runs[-1].result == {"prospects": 4, "merged": 2, "proposed": 0}
    [(progress,)] = rows(platform, "SELECT CAST(progress AS CHAR(200)) FROM mayfly_jobs")
    assert json.loads(progress) == {"done": 16, "total": 16, "text": "prospects compared: 2 merged"}
    assert prospects(platform, "id, email, name, phone, city") == [
        (ann, "Ann.Miller@gmail.com", "Ann Miller", "+49 221 1234567", "Köln"),
        (bob, "bob@example.com", "Bob", None, None),
    ]
    assert prospects(platform, "id, merged_into", "merged_into IS NOT NULL") == [(twin, ann), (third, ann)]


def test_similar_name_and_company(platform: str) -> None:
    """Both must match, and the phone or the profile; equal if both have an address; a missing address is copied."""
    ids = insert(
        platform,
        [
            {"name": "Dr. John Smith", "company": "Acme Inc.", "phone": "+49 (221) 123-4567"},
            {"name": "Smith, Jon", "company": "ACME", "email": "jon@acme.example", "phone": "0049221/1234567"},
            {"name": "John Smith", "company": "Globex"},
            {"name": "Joan Smith", "company": "Acme", "email": "joan@acme.example"},
            {"name": "John Smith"},
        ],
    )

    run("dedup_prospects")

    assert [row[0] for row in prospects(platform)] == [ids[0], ids[2], ids[3], ids[4]]
    assert prospects(platform, "email", f"id = {ids[0]}") == [("jon@acme.example",)]
    [(rule, score, changes)] = rows(platform, "SELECT rule, score, changes FROM app_merges")
    assert (rule, round(score)) == ("similarity", 95)
    assert json.loads(changes)["email"] == [None, "jon@acme.example"]


def test_similar_names_alone_are_only_proposed(platform: str) -> None:
    """Christian and Christina have 93.3; equal names may be two people as well."""
    christian, christina, ann, other_ann = insert(
        platform,
        [
            {"name": "Christian Weber", "company": "Weber GmbH", "email": "christian@weber.example"},
            {"name": "Christina Weber", "company": "Weber GmbH", "phone": "+49 221 1234567"},
            {"name": "Ann Miller", "company": "Acme", "email": "ann@acme.example"},
            {"name": "Ann Miller", "company": "Acme", "email": "a.miller@acme.example"},
        ],
    )

    results = [run("dedup_prospects").runs[-1].result for _ in range(2)]

    assert results == [
        {"prospects": 4, "merged": 0, "proposed": 2},
        {"prospects": 4, "merged": 0, "proposed": 0},
    ]
    found = rows(platform, "SELECT winner_id, loser_id, score, state FROM app_merge_proposals ORDER BY score")
    assert [(row[0], row[1], round(row[2], 1), row[3]) for row in found] == [
        (christian, christina, 93.3, "open"), (ann, other_ann, 100.0, "open"),
    ]  # fmt: skip


@SQLITE
def test_a_common_profile_or_phone_does_not_join_similar_names_with_different_addresses(platform: str) -> None:
    """A family firm has one phone."""
    common = {"company": "Weber GmbH", "phone": "+49 221 1234567"}
    insert(platform, [
        {"name": "Christian Weber", "email": "christian@weber.example", **common},
        {"name": "Christina Weber", "email": "christina@weber.example", **common},
    ])  # fmt: skip

    assert run("dedup_prospects").runs[-1].result == {"prospects": 2, "merged": 0, "proposed": 1}


@pytest.mark.every_database
@pytest.mark.parametrize(("merge", "state", "left"), [(True, "merged", 1), (False, "rejected", 2)])
def test_a_person_decides_about_a_proposal(platform: str, merge: bool, state: str, left: int) -> None:
    """Once; a later run does not propose the pair again. On every database."""
    insert(platform, [{"name": "Ann Miller", "company": "Acme"}] * 2)
    run("dedup_prospects")
    [(proposal,)] = rows(platform, "SELECT id FROM app_merge_proposals")

    results = [run("review_merge", proposal=proposal, merge=each).runs[-1].result for each in (merge, not merge)]
    again = run("dedup_prospects").runs[-1].result

    assert results == [{"state": state}] * 2
    assert (again["merged"], again["proposed"], len(prospects(platform))) == (0, 0, left)
    assert [row.rule for row in rows(platform, "SELECT rule FROM app_merges")] == ["review"] * (2 - left)


@SQLITE
def test_a_proposal_may_be_obsolete_or_missing(platform: str) -> None:
    """One of the two was merged in the meantime."""
    named = {"name": "Ann Miller", "company": "Acme"}
    _, second = insert(platform, [named, {**named, "email": "ann@acme.example"}])
    run("dedup_prospects", rules=["similarity"])
    execute(platform, f"UPDATE app_prospects SET merged_into = 99 WHERE id = {second}")
    [(proposal,)] = rows(platform, "SELECT id FROM app_merge_proposals")

    assert run("review_merge", proposal=proposal, merge=True).runs[-1].result == {"state": "obsolete"}
    assert "there is no proposal 77" in error_of(run("review_merge", proposal=77, merge=False))


@pytest.mark.every_database
@pytest.mark.parametrize("slice_after", [1, 3])
def test_slices_find_what_one_run_finds(platform: str, monkeypatch: pytest.MonkeyPatch, slice_after: int) -> None:
    """A pass that continues from its checkpoint has its window of neighbours. On every database."""
    monkeypatch.setattr(dedup, "PAGE_SIZE", 2)
    insert(
        platform,
        [{"email": f"{each}@gmail.com"} for each in ("ann", "bob", "a.nn", "b.ob", "a.n.n", "cid")]
        + [
            {"name": each, "company": "Acme", "linkedin": "https://www.linkedin.com/in/zoe/"}
            for each in ("Zoe Turner", "Zoe Turne", "Ted Grant", "Zoë Turner")
        ],
    )

    drained = run("dedup_prospects", slice_after=slice_after)

    assert drained.outcomes["sliced"] >= 3
    assert drained.runs[-1].result == {"prospects": 10, "merged": 5, "proposed": 0}
    assert len(prospects(platform)) == 5


def test_a_repeated_run_merges_nothing_twice(platform: str) -> None:
    """Another job finds nothing, and the merges of the first stay."""
    insert(platform, [{"email": "ann@gmail.com"}, {"email": "a.nn@gmail.com"}])
    first = run("dedup_prospects")
    before = rows(platform, "SELECT * FROM app_merges"), prospects(platform, "*", ALL)

    again = run("dedup_prospects")

    assert (first.runs[-1].result, again.runs[-1].result) == (
        {"prospects": 2, "merged": 1, "proposed": 0},
        {"prospects": 1, "merged": 0, "proposed": 0},
    )
    assert (rows(platform, "SELECT * FROM app_merges"), prospects(platform, "*", ALL)) == before


@pytest.mark.every_database
def test_a_merge_can_be_undone(platform: str) -> None:
    """Both are as before, and are not merged again; a second undo changes nothing. On every database."""
    people = [
        {"email": "ann@gmail.com", "name": "Ann"},
        {"email": "a.nn@gmail.com", "name": "Ann Miller", "phone": "1"},
    ]
    insert(platform, people)
    before = prospects(platform, "id, email, name, phone")
    run("dedup_prospects")
    [(merge,)] = rows(platform, "SELECT id FROM app_merges")
    merged = prospects(platform, "id, email, name, phone")

    undone = [run("undo_merge", merge=merge).runs[-1].result for _ in range(2)]
    run("dedup_prospects")

    assert undone == [{"undone": 1}, {"undone": 0}]
    assert (len(merged), prospects(platform, "id, email, name, phone")) == (1, before)


@pytest.mark.every_database
def test_later_merges_are_undone_first(platform: str) -> None:
    """Merges build on each other; a whole run can be undone. On every database."""
    insert(platform, [{"email": f"{each}@gmail.com", "name": "Ann" + each} for each in ("ann", "a.nn", "a.n.n")])
    before = prospects(platform, "id, email, name")
    job_id = run("dedup_prospects").runs[0].job.id
    first, second = (row.id for row in rows(platform, "SELECT id FROM app_merges ORDER BY id"))

    refused = run("undo_merge", merge=first)
    whole = run("undo_merge", run=job_id)

    assert f"merge {second} of prospect {before[0][0]} is newer: undo it first" in error_of(refused)
    assert whole.runs[-1].result == {"undone": 2}
    assert prospects(platform, "id, email, name") == before


@SQLITE
def test_a_merged_winner_keeps_its_merges(platform: str) -> None:
    """The third is part of the second, and that of the first: undone in reverse order."""
    third = {"email": "Ann@acme.example", "phone": "1"}
    named = {"name": "Ann Miller", "company": "Acme", "linkedin": "linkedin.com/in/ann"}
    ids = insert(platform, [named, {**named, "email": "ann@acme.example"}, third])
    before = prospects(platform, "id, email, phone")
    job_id = run("dedup_prospects").runs[0].job.id
    into = prospects(platform, "id, merged_into, phone", ALL)
    first, second = (row.id for row in rows(platform, "SELECT id FROM app_merges ORDER BY id"))

    refused = run("undo_merge", merge=first)
    run("undo_merge", run=job_id)

    assert into == [(ids[0], None, "1"), (ids[1], ids[0], "1"), (ids[2], ids[1], "1")]
    assert f"merge {second} of prospect {ids[1]} is newer: undo it first" in error_of(refused)
    assert prospects(platform, "id, email, phone") == before


@SQLITE
@pytest.mark.parametrize(("rules", "merged"), [(["mail"], 1), (["similarity"], 1), (["similarity", "mail"], 2)])
def test_one_rule_only(platform: str, rules: list[str], merged: int) -> None:
    """Rules have a fixed order."""
    named = {"name": "Ann Miller", "company": "Acme", "linkedin": "linkedin.com/in/ann"}
    insert(platform, [named, named, {"email": "bob@x.example"}, {"email": "Bob@x.example"}])

    assert run("dedup_prospects", rules=rules).runs[-1].result == {"prospects": 4, "merged": merged, "proposed": 0}


@SQLITE
def test_undo_keeps_later_changes(platform: str) -> None:
    """Only fields with the merged value are restored."""
    [ann, _] = insert(
        platform, [{"email": "ann@gmail.com"}, {"email": "a.nn@gmail.com", "phone": "1", "city": "Köln"}]
    )
    run("dedup_prospects")
    execute(platform, "UPDATE app_prospects SET phone = '2' WHERE id = :id", id=ann)
    run("undo_merge", merge=rows(platform, "SELECT id FROM app_merges")[0].id)

    assert prospects(platform, "phone, city", f"id = {ann}") == [("2", None)]


@SQLITE
def test_a_missing_merge_is_final(platform: str) -> None:
    """A run without merges is done."""
    assert "there is no merge 7" in error_of(run("undo_merge", merge=7))
    assert run("undo_merge", run=7).runs[-1].result == {"undone": 0}


@SQLITE
@pytest.mark.parametrize(
    ("type_name", "payload"),
    [
        ("undo_merge", {}),
        ("undo_merge", {"merge": 1, "run": 1}),
        ("undo_merge", {"merge": 0}),
        ("undo_merge", {"merge": 1 << 63}),
        ("dedup_prospects", {"similarity": 50}),
        ("review_merge", {"proposal": 1}),
        ("review_merge", {"proposal": 1, "merge": "yes"}),
        ("dedup_prospects", {"neighbours": 0}),
        ("dedup_prospects", {"rules": []}),
        ("dedup_prospects", {"rules": ["smell"]}),
        ("dedup_prospects", {"more": 1}),
        ("enrich_prospect", {"prospect": "x"}),
        ("enrich_prospect", {}),
    ],
)
def test_an_invalid_payload_is_refused(platform: str, type_name: str, payload: dict[str, Any]) -> None:
    """At enqueue."""
    with pytest.raises(BadPayload):
        enqueue(type_name, payload)


numbers = st.integers(-1, 3) | st.sampled_from([1 << 62, 1 << 63, 95.5]) | st.text(max_size=2) | st.none()


@SQLITE
@in_full(50)
@given(
    st.sampled_from(["dedup_prospects", "undo_merge", "enrich_prospect"]),
    st.dictionaries(
        st.sampled_from(["merge", "run", "similarity", "neighbours", "prospect", "x"]), numbers, max_size=2
    ),
)
def test_any_payload_is_refused_or_handled(
    platform: str, monkeypatch: pytest.MonkeyPatch, type_name: str, payload: dict[str, Any]
) -> None:
    """Never an unexpected error."""
    monkeypatch.setenv("HUNTER_API_KEY", "k")
    try:
        drained = run(type_name, **payload)
    except BadPayload:
        return

    assert set(drained.outcomes) <= {"done", "dead"}
    assert drained.runs[-1].error is None


names = st.sampled_from(["ann miller", "ann millor", "an miller", "bob", "bob turner", "zoe"])


@in_full(50)
@given(st.lists(st.tuples(names, names), max_size=30), st.integers(1, 40))
def test_no_prospect_loses_twice_and_the_older_wins(people: list[tuple[str, str]], most: int) -> None:
    """For any order of the list, with a bounded number of comparisons."""
    near = SortedNeighbourhood(most, 90.0, load_ratio())
    entries = [
        Candidate(number * 7 % 31, *names, f"{number}" if number % 2 else None, "1" if number % 3 else None)
        for number, names in enumerate(people)
    ]
    pairs = [pair for each in entries for pair in near.add(each)]

    losers = [pair.loser for pair in pairs if pair.is_certain]
    assert len(set(losers)) == len(losers)
    assert all(pair.winner < pair.loser for pair in pairs)
    assert len(near.ids) <= most
    assert not set(near.ids) & set(losers)


def test_a_missing_library_is_an_error_message() -> None:
    """For the rule similarity only."""
    script = (
        "import sys; sys.modules['rapidfuzz.fuzz'] = None; sys.modules['rapidfuzz'] = None\n"
        "from handlers.prospects.similarity import load_ratio\n"
        "try: load_ratio()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True)

    assert done.stdout == "Dead similarity needs rapidfuzz: pip install 'mayfly-jobs[prospects]'\n"
