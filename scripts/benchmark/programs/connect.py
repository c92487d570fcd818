"""Connect as in the driver's documentation, with READ COMMITTED and, on SQLite, durable writes."""

import json
import os
from importlib import import_module
from typing import Any

DRIVER = os.environ.get("BARE_DRIVER", "")
AFTER_CONNECTING = {
    "pymysql": "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "psycopg": "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "sqlite3": "PRAGMA synchronous=FULL",
}


def load_driver() -> Any:
    return import_module(DRIVER)


def connect() -> Any:
    connection = load_driver().connect(**json.loads(os.environ["BARE_ADDRESS"]))
    connection.cursor().execute(AFTER_CONNECTING[DRIVER])
    if DRIVER != "sqlite3":
        connection.commit()
    return connection
