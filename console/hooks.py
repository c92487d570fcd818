"""Routes that modules of HANDLERS contribute: /hooks/NAME/… for services that send events and sign them.

They have neither session nor token, so they must check each request themselves. AuthMiddleware applies the limits.
"""

from importlib import import_module

from fastapi import FastAPI

from console.auth import HOOKS_PATH
from mayfly import log_messages
from mayfly.log import Log
from mayfly.registry import Registry, contributed_routes


def mount(app: FastAPI, registry: Registry, log: Log) -> None:
    """Routes whose module is broken are missing; all others work."""
    for name, module in contributed_routes(registry).items():
        try:
            application = getattr(import_module(module), name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code
            log.write(log_messages.routes_failed(name, module, f"{type(error).__name__}: {error}"))
            continue
        app.mount(f"{HOOKS_PATH}{name}", application)
