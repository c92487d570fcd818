import pytest

from tests.declared_handlers import use_basic_handlers


@pytest.fixture(autouse=True)
def _few_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default would import all handlers."""
    use_basic_handlers(monkeypatch)
