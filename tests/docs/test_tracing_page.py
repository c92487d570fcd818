"""docs/how-to/monitor.md is correct: its setting loads, its attributes are those of the spans."""

import re
from pathlib import Path

from mayfly.settings import load
from tests.docs.consoles import section_named

CHECKOUT = Path(__file__).parents[2]
PAGE = section_named("how-to/monitor.md", "Tracing")


def test_the_setting_loads(tmp_path: Path) -> None:
    """As shown on the page."""
    [block] = re.findall(r"^```sh\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / ".env").write_text(block)

    loaded = load({"MAYFLY_HOME": str(tmp_path)})

    assert (loaded.warnings, loaded.settings.otlp_endpoint) == ((), "http://127.0.0.1:4318")


def test_the_attributes_are_those_of_the_spans() -> None:
    """All of a runner's, and no other."""
    source = (CHECKOUT / "runner" / "tracing.py").read_text("utf-8")
    given = set(re.findall(r'"(mayfly\.[a-z._]+)"', source))

    assert set(re.findall(r"`(mayfly\.[a-z._]+[a-z])`", PAGE)) == given
