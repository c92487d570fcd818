"""The examples of docs/how-to/launchers.md are valid settings."""

import re
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from mayfly.fleet.launchers import submit_command
from tests.process.installation import CHECKOUT
from tests.unit.settings.factories import settings_in

PAGE = (CHECKOUT / "docs/how-to/launchers.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_settings_are_valid(tmp_path: Path, number: int) -> None:
    """And commands can be built from them."""
    settings = settings_in(tmp_path, {}, toml=EXAMPLES[number])

    assert settings.launchers
    programs = {
        submit_command(settings, launcher, "worker-1-1", "default").arguments[0]
        for launcher in settings.launchers.values()
    }
    assert programs <= {"sbatch", "kubectl", "ssh"}


def test_the_manifest_has_the_published_schema(tmp_path: Path) -> None:
    """The one that is to be copied."""
    [example] = [each for each in EXAMPLES if "manifest" in each]
    settings = settings_in(tmp_path, {}, toml=example)

    command = submit_command(settings, settings.launchers["kubernetes"], "worker-1-1", "default")

    kubernetes_validate.validate(yaml.safe_load(command.text), "1.28", strict=True)


def test_every_cause_and_setting_of_the_table_exists() -> None:
    """The words in which the log, the rows and the alerts name them."""
    for each in ("refused", "not started", "launcher refused", "cancelled outside Mayfly", "start_timeout"):
        assert f"`{each}`" in PAGE
