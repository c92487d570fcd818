"""The pages of batches and of types."""

import json
from datetime import timedelta

from mayfly.schema.metadata import batches
from tests.process.console.api import Api
from tests.process.installation import Installation
from tests.process.pages.test_jobs_pages import make_dead
from tests.process.pages.visitor import Visitor, text_of
from tests.sqlalchemy_engines import run


def make_batch(made: Installation, key: str, jobs: int = 3, is_sealed: bool = False) -> list[int]:
    """With one job done, or none if it has only one."""
    now = made.now() - timedelta(hours=2)
    sealed_at = now if is_sealed else None
    run(
        made.database,
        lambda c: c.execute(batches.insert().values(batch_key=key, created_at=now, sealed_at=sealed_at)),
    )
    done = made.enqueue("noop", group_key=key, status="done", finished_at=made.now()) if jobs > 1 else []
    return [*done, *made.enqueue("noop", group_key=key, count=jobs - len(done))]


def test_batches_are_listed_with_their_progress(api: Api, visitor: Visitor) -> None:
    """State, bar, and jobs per status; the actions that are possible."""
    make_batch(api.installation, "orders", 4, is_sealed=True)
    make_batch(api.installation, "crowd")
    page = visitor.get("/batches")

    assert "orders open 25 % 1 of 4 jobs 3 1 0 0" in text_of(page)
    assert "crowd never sealed 33 % 1 of 3 jobs 2 1 0 0" in text_of(page)
    assert page.text.count("verb=seal") == 1
    assert page.text.count("verb=abandon") == 2
    assert [each["batch"] for each in json.loads(visitor.get("/batches.json").text)] == ["orders", "crowd"]


def test_a_batch_is_sealed(api: Api, visitor: Visitor) -> None:
    """After a confirmation; the action is in the audit. A second time there is nothing to seal."""
    make_batch(api.installation, "crowd")
    asked = visitor.get("/batches/confirm?verb=seal&name=crowd")
    answer = visitor.follow(visitor.post("/batches/seal", name="crowd"))
    again = visitor.post("/batches/seal", name="crowd")

    assert "Seal the batch crowd in testing?" in text_of(asked)
    assert "Sealed the batch crowd." in text_of(answer)
    assert (again.status, "There is no batch 'crowd' to seal" in text_of(again)) == (422, True)
    entries = [
        tuple(row)
        for row in api.installation.rows("SELECT verb, subject, via FROM mayfly_audit ORDER BY id DESC LIMIT 1")
    ]
    assert entries == [("seal", "batch crowd", "page")]


def test_a_batch_is_abandoned(api: Api, visitor: Visitor) -> None:
    """Its pending jobs are cancelled with the reason; many of them in the background."""
    made = api.installation
    _done, *pending = make_batch(made, "orders", 3, is_sealed=True)
    make_batch(made, "crowd", 150)
    asked = visitor.get("/batches/confirm?verb=abandon&name=orders")
    answer = visitor.follow(visitor.post("/batches/abandon", name="orders", reason="sent twice"))
    large = visitor.post("/batches/abandon", name="crowd")

    assert "2 pending jobs will be cancelled" in text_of(asked)
    assert "Abandoned the batch orders. 2 jobs cancelled." in text_of(answer)
    assert {made.job(each).last_error for each in pending} == {
        "cancelled by admin: the batch orders was abandoned: sent twice"
    }
    assert large.headers["location"].startswith("/errands/")
    verbs = [row[0] for row in made.rows("SELECT verb FROM mayfly_audit WHERE subject = 'batch orders'")]
    assert verbs == ["abandon"]


def test_only_operators_change_batches(api: Api) -> None:
    """A viewer sees them."""
    make_batch(api.installation, "crowd")
    viewer = Visitor(api.port).log_in("viewer")

    assert "crowd" in text_of(viewer.get("/batches"))
    assert "Abandon…" not in viewer.get("/batches").text
    assert viewer.get("/batches/confirm?verb=seal&name=crowd").status == 403
    assert viewer.post("/batches/abandon", name="crowd").status == 403


def test_a_type_has_a_page(api: Api, visitor: Visitor) -> None:
    """After a real cycle: rate, failures by error with masked secrets, and the last jobs."""
    made = api.installation
    made.enqueue("noop", count=3)
    made.dispatch()
    make_dead(made, "ValueError: token=geheim", {"token": "geheim"})
    page = visitor.get("/types?name=noop")
    text = text_of(page)

    assert "Done per minute 0.1 Done 3 Failed attempts 0 Dead 0 Duration p50" in text
    assert "ValueError: token=•••" in text
    assert "geheim" not in page.text
    assert page.text.count('data-label="ID"') == 4
    assert "noop 3 0 0" in text_of(visitor.get("/types"))


def test_the_page_of_an_unknown_type_explains(api: Api, visitor: Visitor) -> None:
    """Any text may be a type."""
    page = visitor.get("/types?name=a%2Fb%3Cscript%3E")

    assert page.status == 200
    assert "No handler of this host has this type." in text_of(page)
