"""mayfly.toml with launchers: runners of other machines read their settings from it."""

import sys

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
