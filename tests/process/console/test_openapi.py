"""The OpenAPI document is correct: schemathesis calls every operation and checks the responses."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.process.console.api import Api
from tests.process.installation import CHECKOUT

REPLACED_CHECK = "positive_data_acceptance"  # by `no_looser_schema`, which knows rules that a schema cannot state
CHECKS = "tests.process.console.schema_checks"


@pytest.mark.parametrize("phase", ["fuzzing", pytest.param("coverage", marks=pytest.mark.slow)])
def test_every_response_is_documented(serving: Any, tmp_path: Path, phase: str) -> None:
    """No 5xx, no undocumented status, type or shape; invalid requests are refused, and only those."""
    api: Api = serving(CONSOLE_RATE="100000")
    api.installation.dispatch()  # otherwise /health is 503
    api.installation.enqueue("noop", lane="outside", count=20)
    ran = subprocess.run(
        [
            Path(sys.executable).with_name("st"),
            "run",
            f"http://127.0.0.1:{api.port}/api/v1/openapi.json",
            f"--header=Authorization: Bearer {api.token}",
            "--checks=all",
            f"--exclude-checks={REPLACED_CHECK}",
            f"--phases={phase}",
            f"--max-examples={settings().max_examples // 5}",  # per operation, besides those that cover its schema
            "--seed=1",
            "--no-shrink",
            "--request-timeout=30",
            "--suppress-health-check=all",
        ],
        cwd=tmp_path,
        env={**os.environ, "SCHEMATHESIS_HOOKS": CHECKS, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-20_000:]
    paths = api.ask("GET", "/api/v1/openapi.json").json["paths"]
    assert f"Tested: {sum(map(len, paths.values()))}" in ran.stdout, ran.stdout[-3000:]
    api.process.terminate()
    _out, log = api.process.communicate()
    assert "Traceback" not in log, log[-5000:]
