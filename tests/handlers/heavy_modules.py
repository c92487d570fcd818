"""What is dear to import, and needed by some handlers alone: the libraries of extras, and the network's modules."""

from configparser import ConfigParser
from importlib.metadata import packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.process.installation import CHECKOUT

NOT_OF_HANDLERS = {"postgres", "metrics", "otel", "console", "test", "bench"}
STANDARD = {"smtplib", "ssl", "http.client"}


def extras() -> dict[str, set[str]]:
    """The modules of each extra that some handlers need, as setup.cfg names them."""
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


def dear_modules() -> set[str]:
    return STANDARD.union(*extras().values())


def _name(line: str) -> str:
    return canonicalize_name(Requirement(line).name)
