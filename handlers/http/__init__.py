"""Calls to HTTP services. The response's status decides the outcome of the job, in one place for all areas."""

from handlers.http.client import (
    HttpClient,
    HttpResponse,
    ResponseTooLarge,
    ResponseUnknown,
    ServiceUnreachable,
    base_and_path,
    client_for_user_url,
)
from handlers.http.status import ServiceUnavailable

__all__ = [
    "HttpClient", "HttpResponse", "ResponseTooLarge", "ResponseUnknown", "ServiceUnavailable", "ServiceUnreachable",
    "base_and_path", "client_for_user_url",
]  # fmt: skip
