"""A fake model, and boards."""

from collections.abc import Iterator

import pytest

from tests.handlers.ai.boards import Boards
from tests.handlers.ai.models import PlayedModel, played_model

KEY = "sk-s3cret"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedModel]:
    """The fake model, configured by the settings."""
    with played_model() as given:
        monkeypatch.setenv("OPENAI_URL", given.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield given


@pytest.fixture
def boards(platform: str) -> Boards:
    return Boards()
