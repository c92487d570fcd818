"""The redactors of listed jobs."""

from collections.abc import Mapping, Sequence

from mayfly.admin.filters import read_payloads
from mayfly.db.connection import Connection
from mayfly.monitoring.redact import Redactor, for_payload


def read_redactors(connection: Connection, fields: Sequence[str], ids: Sequence[int]) -> Mapping[int, Redactor]:
    """One redactor per job, for the texts of a list."""
    payloads = read_payloads(connection, ids) if fields else {}
    return {each: for_payload(fields, payloads.get(each)) for each in ids}
