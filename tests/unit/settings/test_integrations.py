"""Settings that handlers require: read from the same sources as all settings, and never shown."""

from pathlib import Path

import pytest

from mayfly import setting
from mayfly.errors import NoSuchSetting, SettingsError
from mayfly.settings import load
from mayfly.settings.loading import integration_origins
from mayfly.settings.sources import find_integration


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    for name in ("VENDOR_KEY", "VENDOR_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_source_of_the_highest_precedence_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment, then .env, then the table of mayfly.toml."""
    found = []
    (home / "mayfly.toml").write_text('[integrations]\nvendor_key = "of toml"\n')
    found.append(setting("VENDOR_KEY"))
    (home / ".env").write_text("VENDOR_KEY=of-dotenv\n")
    found.append(setting("VENDOR_KEY"))
    monkeypatch.setenv("VENDOR_KEY", "of the environment")
    found.append(setting("VENDOR_KEY"))

    assert found == ["of toml", "of-dotenv", "of the environment"]


def test_a_secret_can_be_in_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is relative to the home; surrounding white space is stripped."""
    (home / "key").write_text(" s3cret\n")
    monkeypatch.setenv("VENDOR_KEY_FILE", "key")

    assert setting("VENDOR_KEY") == "s3cret"


def test_a_secret_that_cannot_be_read_is_an_error_and_not_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is retried, not cancelled."""
    monkeypatch.setenv("VENDOR_KEY_FILE", "not-there")

    assert find_integration("VENDOR_KEY") is not None
    with pytest.raises(SettingsError, match=r"VENDOR_KEY_FILE=not-there .*cannot be read"):
        setting("VENDOR_KEY", "a default")


def test_an_empty_value_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as `NAME=` in a .env copied from an example."""
    monkeypatch.setenv("VENDOR_KEY", " ")

    assert find_integration("VENDOR_KEY") is None
    assert setting("VENDOR_KEY", "a default") == "a default"
    with pytest.raises(NoSuchSetting, match="VENDOR_KEY is not set"):
        setting("VENDOR_KEY")


def test_values_are_never_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the handler knows which of them are secret."""
    monkeypatch.setenv("VENDOR_KEY", "s3cret")

    shown = [(each.name, each.value, each.source) for each in integration_origins(["VENDOR_KEY", "VENDOR_URL"])]

    assert shown == [("VENDOR_KEY", "***", "environment"), ("VENDOR_URL", "none", "default")]


@pytest.mark.parametrize("toml", ["integrations = 7", '[integrations]\nVENDOR_KEY = "x"', "[integrations]\nkey = []"])
def test_an_invalid_integrations_table_is_refused(home: Path, toml: str) -> None:
    """Together with the other errors of mayfly.toml."""
    (home / "mayfly.toml").write_text(toml)

    with pytest.raises(SettingsError, match="integrations"):
        load()
