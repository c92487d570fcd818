"""The OpenAPI document is true: schemathesis asks everything that it describes, and gets nothing that it does not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.process.console.api import Api

EXAMPLES = 4  # of each operation, besides those that cover its schema
# Not whether everything that fits the schema is accepted: what a lane may be called is said by Mayfly, not by JSON.
LEFT_OUT = "positive_data_acceptance"


@pytest.mark.parametrize("phase", ["fuzzing", pytest.param("coverage", marks=pytest.mark.slow)])
def test_nothing_undocumented_is_answered_and_nothing_breaks(serving: Any, tmp_path: Path, phase: str) -> None:
    """No 5xx, no status, type or shape that the document does not have, no wrong request that is taken for right."""
    api: Api = serving(CONSOLE_RATE="100000")
    api.installation.dispatch()  # or /health would be ill
    api.installation.enqueue("noop", lane="outside", count=20)
    ran = subprocess.run(
        [
            Path(sys.executable).with_name("st"),
            "run",
            f"http://127.0.0.1:{api.port}/api/v1/openapi.json",
            f"--header=Authorization: Bearer {api.token}",
            "--checks=all",
            f"--exclude-checks={LEFT_OUT}",
            f"--phases={phase}",
            f"--max-examples={EXAMPLES}",
            "--seed=1",
            "--no-shrink",
            "--request-timeout=30",
            "--suppress-health-check=all",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-20_000:]
    paths = api.ask("GET", "/api/v1/openapi.json").json["paths"]
    assert f"Tested: {sum(map(len, paths.values()))}" in ran.stdout, ran.stdout[-3000:]
    api.process.terminate()
    _out, told = api.process.communicate()
    assert "Traceback" not in told, told[-5000:]
