"""Mayfly's programs: dispatcher, runner and console, each a top-level package next to `mayfly`.

An application may have a package of the same name, earlier on the import path. So a program is always imported from
the directory of `mayfly`. In its process `import runner` then means Mayfly's package, also in the application's code.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import NamedTuple

from mayfly.errors import PackageNameTaken

ROOT = Path(__file__).resolve().parent.parent.parent  # site-packages, or the checkout


class Program(NamedTuple):
    package: str
    main: str  # the module of main()
    command: str  # the module of `command`, for click


PROGRAMS = {
    "dispatch": Program("dispatcher", "dispatcher.__main__", "dispatcher.cli"),
    "runner": Program("runner", "runner.cli", "runner.cli"),
    "console": Program("console", "console.__main__", "console.__main__"),
}
OWN_PACKAGES = tuple(each.package for each in PROGRAMS.values())


class TakenName(NamedTuple):
    """A package of the application with the name of one of Mayfly's."""

    package: str
    path: str


def run_program(verb: str, arguments: Sequence[str]) -> None:
    """As `python -m dispatcher` does, from any directory: its main() ends the process."""
    import_own(PROGRAMS[verb].package)
    sys.argv = [f"mayfly {verb}", *arguments]
    import_module(PROGRAMS[verb].main).main()


def import_own(package: str) -> None:
    """Import this package of Mayfly, from whatever directory the import path begins with.

    Raises PackageNameTaken if this process has already imported another one.
    """
    known = sys.modules.get(package)
    if known is None:
        spec = PathFinder.find_spec(package, [str(ROOT)])
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {package!r} in {ROOT}", name=package)
        sys.modules[package] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    elif not _is_own(package, known.__file__):
        raise PackageNameTaken(package, known.__file__)


def taken_names(home: Path) -> list[TakenName]:
    """The packages that `import dispatcher` and so on would find first, where these are not Mayfly's."""
    found = ((name, PathFinder.find_spec(name, [str(home), *sys.path])) for name in OWN_PACKAGES)
    origins = ((name, spec.origin) for name, spec in found if spec is not None)
    return [TakenName(name, path) for name, path in origins if path is not None and not _is_own(name, path)]


def _is_own(package: str, file: str | None) -> bool:
    return file is not None and Path(file).resolve().parent == ROOT / package
