"""The HTTP request that is sent to a subscription of any kind."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PushMessage:
    url: str = field(repr=False)
    body: bytes
    headers: Mapping[str, str] = field(repr=False)


def json_message(url: str, content: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> PushMessage:
    return PushMessage(url, json.dumps(content).encode(), {"Content-Type": "application/json", **(headers or {})})
