"""Idempotency keys: the response to a request is stored with its effect, and returned to its repetitions."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.errors import KeyReused

COLUMNS = ("token_name", "idempotency_key", "body_hash", "created_at")
WHICH = "token_name = :token_name AND idempotency_key = :idempotency_key"
KNOWN = f"SELECT body_hash, answer FROM mayfly_requests WHERE {WHICH}"
ANSWER = f"UPDATE mayfly_requests SET answer = :answer WHERE {WHICH}"


class IdempotentRequest(NamedTuple):
    token_name: str
    idempotency_key: str
    body_hash: str
    created_at: datetime

    @property
    def key(self) -> dict[str, str]:
        return {"token_name": self.token_name, "idempotency_key": self.idempotency_key}


def idempotent_request(token_name: str, key: str, body: bytes, now: datetime) -> IdempotentRequest:
    return IdempotentRequest(token_name, key, hashlib.sha256(body).hexdigest(), now)


def run_once(
    connection: Connection, request: IdempotentRequest, work: Callable[[Connection], Any]
) -> tuple[Any, bool]:
    """The result of `work`, and whether it is new. Both are written in one transaction.

    A repetition that comes while the first request is in progress waits for its commit at the INSERT.
    """
    insert = connection.dialect.insert_missing("mayfly_requests", COLUMNS[:2], COLUMNS)
    if connection.execute(insert, request._asdict()).rowcount == 0:
        return _known_answer(connection, request, work)
    answer = work(connection)
    connection.execute(ANSWER, {**request.key, "answer": json_text.encode(answer)})
    return answer, True


def _known_answer(
    connection: Connection, request: IdempotentRequest, work: Callable[[Connection], Any]
) -> tuple[Any, bool]:
    found = connection.execute(KNOWN, request.key).first()
    if found is None:  # a day old, and pruned between the two statements
        return run_once(connection, request, work)
    if found[0] != request.body_hash:
        raise KeyReused(request.idempotency_key)
    return json_text.decode(found[1]), False
