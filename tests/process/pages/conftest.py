"""Consoles that serve the pages too, with one account per role."""

import pytest

from tests.process.console.api import Api, Serve
from tests.process.console.fixtures import api, consoles, own_api, restartable_api, served, serving
from tests.process.pages.visitor import Visitor, serve_pages

__all__ = ["api", "consoles", "own_api", "restartable_api", "served", "serving"]


@pytest.fixture
def serve() -> Serve:
    return serve_pages


@pytest.fixture
def visitor(api: Api) -> Visitor:
    return Visitor(api.port).log_in()
