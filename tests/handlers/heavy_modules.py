"""Modules that are slow to import and needed by some handlers only: extras, network modules, SQLAlchemy."""

from configparser import ConfigParser
from importlib.metadata import packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.process.installation import CHECKOUT

NOT_OF_HANDLERS = {"postgres", "metrics", "otel", "console", "test", "bench"}
OTHERS = {"smtplib", "ssl", "http.client", "sqlalchemy"}


def extras() -> dict[str, set[str]]:
    """The modules of each extra for handlers, by setup.cfg."""
    config = ConfigParser()
    config.read(CHECKOUT / "setup.cfg")
    modules: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for each in distributions:
            modules.setdefault(canonicalize_name(each), set()).add(module)
    return {
        extra: {module for line in lines.split("\n") if line for module in modules[_name(line)]}
        for extra, lines in config["options.extras_require"].items()
        if extra not in NOT_OF_HANDLERS
    }


def heavy_modules() -> set[str]:
    return OTHERS.union(*extras().values())


def _name(line: str) -> str:
    return canonicalize_name(Requirement(line).name)
