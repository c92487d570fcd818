"""constraints.txt pins what an install brings in, so that two installs are the same."""

from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def test_all_that_the_project_requires_is_pinned() -> None:
    """The project's own requirements, theirs and so on, with the extras test and bench."""
    assert required("mayfly-jobs", {"", "test", "bench"}) - pins() == set()


def pins() -> set[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}


def required(name: str, extras: set[str]) -> set[str]:
    found: set[str] = set()
    waiting = [(name, extras)]
    while waiting:
        name, extras = waiting.pop()
        for requirement in map(Requirement, requires(name) or []):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                each = canonicalize_name(requirement.name)
                if each not in found or requirement.extras:
                    waiting.append((each, {"", *requirement.extras}))
                found.add(each)
    return found
