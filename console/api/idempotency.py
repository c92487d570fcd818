"""Requests that may come twice: the answer to the first is kept with what it did, and given to the others."""

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
    """Who asks, under which key, and for what."""

    token_name: str
    idempotency_key: str
    body_hash: str
    created_at: datetime


def idempotent_request(token_name: str, key: str, body: bytes, now: datetime) -> IdempotentRequest:
    return IdempotentRequest(token_name, key, hashlib.sha256(body).hexdigest(), now)


def run_once(
    connection: Connection, request: IdempotentRequest, work: Callable[[Connection], Any]
) -> tuple[Any, bool]:
    """What `work` answers, and whether that is new; in one transaction, so that neither is there without the other.

    Whoever comes while the first is at work waits for its commit at the INSERT.
    """
    row = request._asdict()
    inserting = connection.dialect.insert_missing("mayfly_requests", COLUMNS[:2], COLUMNS)
    if connection.execute(inserting, row).rowcount == 0:
        found = connection.execute(KNOWN, _which(request)).first()
        if found is None:  # a day old, and pruned between the two statements
            return run_once(connection, request, work)
        if found[0] != request.body_hash:
            raise KeyReused(request.idempotency_key)
        return json_text.decode(found[1]), False
    answer = work(connection)
    connection.execute(ANSWER, {**_which(request), "answer": json_text.encode(answer)})
    return answer, True


def _which(request: IdempotentRequest) -> dict[str, str]:
    return {"token_name": request.token_name, "idempotency_key": request.idempotency_key}
