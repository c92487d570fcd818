"""The content of the distribution."""

from configparser import ConfigParser

from setuptools import find_packages  # type: ignore[import-untyped]

from tests.process.installation import CHECKOUT


def test_the_distribution_has_no_handlers() -> None:
    """They are an application on top of the library, used from a checkout."""
    config = ConfigParser()
    config.read(CHECKOUT / "setup.cfg")
    include = config["options.packages.find"]["include"].split()

    found = {each.partition(".")[0] for each in find_packages(str(CHECKOUT), include=include)}

    assert found == {"mayfly", "dispatcher", "runner", "console"}
