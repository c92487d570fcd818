"""JSON as text, the only form in which payloads, results and checkpoints are kept. Never pickle, never eval."""

import json
from collections.abc import Callable
from typing import Any


def encode(value: object) -> str:
    """Compact JSON. Text stays readable in SQL; only what UTF-8 cannot hold is escaped (lone surrogates)."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


decode: Callable[[str], Any] = json.loads
