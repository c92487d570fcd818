"""Drain the default lane in this process under cProfile. Prints the share of each part as JSON."""

import cProfile
import json
import pstats
from typing import Any

from mayfly.settings import load_settings
from runner.cli import run_by_hand

WHOLE = ("/runner/life.py", "_drain")
PARTS = {  # a file, and a function in it
    "claim": ("/mayfly/jobs/claim.py", "claim"),
    "read what was claimed": ("/mayfly/jobs/claim.py", "jobs_from"),
    "run": ("/runner/invoke.py", "run"),
    "make ready to settle": ("/mayfly/jobs/settle.py", "made_ready"),
    "settle": ("/mayfly/jobs/settle.py", "write"),
}


def main() -> None:
    settings = load_settings()
    profile = cProfile.Profile()
    profile.runcall(run_by_hand, settings, "default")
    found: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    whole = cumulative(found, *WHOLE)
    shares = {part: cumulative(found, *function) / whole for part, function in PARTS.items()}
    print(json.dumps({**shares, "the rest": 1 - sum(shares.values())}))  # noqa: T201 - its answer


def cumulative(found: dict[Any, Any], place: str, function: str) -> float:
    """Seconds in a function and all that it called."""
    return sum(
        float(seconds)
        for (file, _line, name), (_calls, _primitive, _own, seconds, _callers) in found.items()
        if place in file and name == function
    )


if __name__ == "__main__":
    main()
