"""Queries and actions of operators. The CLI, the HTTP API and the console use this package only."""
