"""mayfly.toml with launchers, from which runners of other machines read their settings; and the rows of runners."""

import sys
from typing import Any

from sqlalchemy import select

from mayfly.schema.metadata import runners
from tests.process.installation import CHECKOUT, Installation, handler_modules

# The checkout is not installed, and its tests have the handlers.
COMMAND = f"""[
    "env", "PYTHONPATH={CHECKOUT}", "MAYFLY_HOME={{home}}",
    "{{python}}", "-m", "mayfly", "runner", "--worker", "{{worker_id}}",
]"""
PYTHON = sys.executable


def write_toml(installation: Installation, launchers: str) -> None:
    """`launchers` are the tables of launchers and lanes."""
    modules = ", ".join(f'"{each}"' for each in handler_modules("misbehaving", "outcomes").split(","))
    text = f"""
database_url = "{installation.url}"
state_dir = "{installation.home}/state"
handlers = [{modules}]
max_load = 0
{launchers}
"""
    (installation.home / "mayfly.toml").write_text(text)


def as_toml(arguments: list[str]) -> str:
    return f"[{', '.join(f'{chr(34)}{each}{chr(34)}' for each in arguments)}]"


def rows(installation: Installation) -> Any:
    """Of all runners, in the order of their plans."""
    return installation.rows(select(runners).order_by(runners.c.planned_at, runners.c.worker_id))
