"""constraints.txt pins every dependency, so two installations get the same versions."""

from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def test_every_dependency_of_the_project_is_pinned() -> None:
    """Transitive requirements and the extras test and bench are pinned too."""
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
