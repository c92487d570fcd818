"""The statements of the idle cycle are those of the full path."""

import os
from pathlib import Path

import pytest

import dispatcher.probe
from tests.unit.dispatcher.derivation import derived_text, dialects

PROBE = Path(dispatcher.probe.__file__).parent


@pytest.mark.parametrize("name", dialects())
def test_the_statements_are_compiled_from_the_full_paths(name: str) -> None:
    """Whoever changes one of those renews these, and reviews what became of them."""
    golden = PROBE / f"{name}.sql"
    derived = derived_text(dialects()[name])
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(derived, "utf-8")

    assert golden.read_text("utf-8") == derived
