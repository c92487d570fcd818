"""What is sent to a subscription, whatever its kind."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Message:
    url: str = field(repr=False)
    body: bytes
    headers: Mapping[str, str] = field(repr=False)


def json_message(url: str, content: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Message:
    return Message(url, json.dumps(content).encode(), {"Content-Type": "application/json", **(headers or {})})
