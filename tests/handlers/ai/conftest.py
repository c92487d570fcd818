"""A model to ask, and boards to ask about."""

from collections.abc import Iterator

import pytest

from tests.handlers.ai.boards import Boards
from tests.handlers.ai.models import PlayedModel, played_model

KEY = "sk-s3cret"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedModel]:
    """One that the settings name."""
    with played_model() as given:
        monkeypatch.setenv("OPENAI_URL", given.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield given


@pytest.fixture
def boards(platform: str) -> Boards:
    return Boards()
