"""docs/how-to/monitor.md is correct: its setting of tracing loads."""

import re
from pathlib import Path

from mayfly.settings import load
from tests.docs.consoles import section_named

PAGE = section_named("how-to/monitor.md", "Tracing")


def test_the_setting_loads(tmp_path: Path) -> None:
    """As shown on the page."""
    [block] = re.findall(r"^```sh\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / ".env").write_text(block)

    loaded = load({"MAYFLY_HOME": str(tmp_path)})

    assert (loaded.warnings, loaded.settings.otlp_endpoint) == ((), "http://127.0.0.1:4318")
