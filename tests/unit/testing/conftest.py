import pytest


@pytest.fixture(autouse=True)
def _few_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default would import every handler there is."""
    monkeypatch.setenv("HANDLERS", "tests.basic_handlers")
