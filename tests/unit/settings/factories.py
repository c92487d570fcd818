"""Factories: an installation in its own directory, and its loaded settings."""

from pathlib import Path

import pytest

from mayfly.errors import SettingsError
from mayfly.settings import Settings, load
from mayfly.settings.loading import Loaded, Origin

HASH = "$argon2id$v=19$m=65536,t=3,p=4$bWF5Zmx5LW1heWZseS1tYQ$5QyVHmGj0iG9Nd9HtbOxN9Vn6xrOc5pVYk1oYdCVXEY"
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # an example of the Standard Webhooks


def load_in(home: Path, environ: dict[str, str] | None = None, *, dotenv: str = "", toml: str = "") -> Loaded:
    if dotenv:
        (home / ".env").write_text(dotenv)
    if toml:
        (home / "mayfly.toml").write_text(toml)
    return load({"MAYFLY_HOME": str(home), **(environ or {})})


def settings_in(home: Path, environ: dict[str, str] | None = None, *, dotenv: str = "", toml: str = "") -> Settings:
    return load_in(home, environ, dotenv=dotenv, toml=toml).settings


def problem_in(home: Path, environ: dict[str, str] | None = None, *, dotenv: str = "", toml: str = "") -> str:
    """The text of the SettingsError."""
    with pytest.raises(SettingsError) as caught:
        load_in(home, environ, dotenv=dotenv, toml=toml)
    return str(caught.value)


def origin_of(loaded: Loaded, name: str) -> Origin:
    return next(origin for origin in loaded.origins if origin.name == name)
