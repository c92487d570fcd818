"""Consoles that serve the HTTP API alone, with one lane for external workers."""

from tests.process.console.fixtures import api, consoles, own_api, restartable_api, serve, served, serving

__all__ = ["api", "consoles", "own_api", "restartable_api", "serve", "served", "serving"]
