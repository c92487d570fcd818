"""HTTP calls to external services. An answer's status decides the outcome of the job, in one place for all areas."""

from handlers.http.client import HttpClient, HttpResponse, ResponseTooLarge, ResponseUnknown, client_for_user_url

__all__ = ["HttpClient", "HttpResponse", "ResponseTooLarge", "ResponseUnknown", "client_for_user_url"]
