"""Inbound mail from providers, as they post it to /hooks/mail/…: the raw message, or what they have parsed from it.

Status 200 means that the message is committed. Providers send it again after 5xx, and give up after 4xx.
"""

import json
from collections.abc import Callable

from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

from handlers.mailroom.event_intake import UnknownProvider, take_in_events
from handlers.mailroom.intake import Envelope, MessageTooLarge, max_bytes, take_in
from handlers.mailroom.posted_mail import PostedFile, from_mailgun, from_sendgrid
from handlers.mailroom.provider_events import BadRequest
from handlers.mailroom.signatures import BadSignature, check_mailgun, check_sendgrid
from handlers.payloads import Tenant
from mayfly import database, setting

TENANT: TypeAdapter[str] = TypeAdapter(Tenant)
MAX_FIELDS = 200
MAX_RECIPIENTS = 100
RAW_FIELDS = {"mailgun": "body-mime", "sendgrid": "email"}


async def receive_mailgun_raw(request: Request) -> Response:
    """A route to …/mailgun/mime: Mailgun sends the raw message to addresses that end with `mime`."""
    form = await _mailgun_form(request)
    return await _store_mailgun(form, await _raw(form, "mailgun"))


async def receive_mailgun(request: Request) -> Response:
    """A route to …/mailgun: Mailgun sends the parsed message."""
    form = await _mailgun_form(request)
    if _text(form, "body-plain") is None and _text(form, "body-html") is None and "message-headers" not in form:
        raise HTTPException(406, "There is neither body-plain nor body-html: is it a route that forwards messages?")
    return await _store_mailgun(form, from_mailgun(_texts(form), list((await _files(form)).values())))


async def _mailgun_form(request: Request) -> FormData:
    """Signed by Mailgun."""
    form = await _form(request)
    fields = {name: str(form.get(name, "")) for name in ("timestamp", "token", "signature")}
    _check(lambda: check_mailgun(_configured("MAILGUN_SIGNING_KEY"), database().now, **fields))
    return form


async def _store_mailgun(form: FormData, raw: bytes) -> Response:
    await _store(raw, Envelope(recipient=_text(form, "recipient"), sender=_text(form, "sender")))
    return PlainTextResponse("stored\n")


async def receive_sendgrid(request: Request) -> Response:
    """Inbound Parse with a security policy; with `POST the raw, full MIME message` or without."""
    body, headers = await request.body(), request.headers
    signature = headers.get("x-twilio-email-event-webhook-signature", "")
    timestamp = headers.get("x-twilio-email-event-webhook-timestamp", "")
    _check(lambda: check_sendgrid(_configured("SENDGRID_PUBLIC_KEY"), database().now, timestamp, signature, body))
    form = await _form(request)
    recipients, sender = _envelope_of(_text(form, "envelope") or "{}")
    if RAW_FIELDS["sendgrid"] in form or "headers" not in form:
        raw = await _raw(form, "sendgrid")
    else:
        raw = from_sendgrid(_texts(form), await _files(form))
    for recipient in recipients[:MAX_RECIPIENTS] or [None]:
        await _store(raw, Envelope(recipient=recipient, sender=sender))
    return PlainTextResponse("stored\n")


def _check(check: Callable[[], None]) -> None:
    try:
        check()
    except BadSignature as error:
        raise HTTPException(403, str(error)) from None


def _configured(name: str) -> str:
    found = setting(name, "")
    if not found:
        raise HTTPException(503, f"integration not configured: {name}")
    return found


async def _form(request: Request) -> FormData:
    limit = max_bytes()
    return await request.form(max_files=MAX_FIELDS, max_fields=MAX_FIELDS, max_part_size=limit)


def _text(form: FormData, name: str) -> str | None:
    found = form.get(name)
    return found if isinstance(found, str) else None


def _texts(form: FormData) -> dict[str, str]:
    """The first value of each field."""
    found: dict[str, str] = {}
    for name, value in form.multi_items():
        if isinstance(value, str):
            found.setdefault(name, value)
    return found


async def _files(form: FormData) -> dict[str, PostedFile]:
    uploads = [(name, value) for name, value in form.multi_items() if isinstance(value, UploadFile)]
    return {
        name: PostedFile(each.filename or "", each.content_type or "", await each.read()) for name, each in uploads
    }


def _envelope_of(text: str) -> tuple[list[str | None], str | None]:
    """SendGrid's JSON: {"to": ["ann@shop.example"], "from": "bob@example.com"}."""
    try:
        found = json.loads(text)
        recipients, sender = found.get("to", []), found.get("from")
    except (ValueError, AttributeError):
        return [], None
    return [each for each in recipients if isinstance(each, str)], sender if isinstance(sender, str) else None


async def _raw(form: FormData, provider: str) -> bytes:
    found = form.get(RAW_FIELDS[provider])
    if isinstance(found, UploadFile):
        return await found.read()
    if not found:
        raise HTTPException(406, f"There is no field {RAW_FIELDS[provider]}: configure it to send the raw message.")
    return found.encode("utf-8", "surrogateescape")


async def _store(raw: bytes, envelope: Envelope) -> None:
    try:
        await run_in_threadpool(take_in, database(), raw, envelope)
    except MessageTooLarge as error:
        raise HTTPException(406, str(error)) from None


async def receive_events(request: Request) -> Response:
    """What became of sent emails."""
    body, provider = await request.body(), request.path_params["provider"]
    try:
        tenant_id = TENANT.validate_python(request.path_params["tenant"])
        stored = await run_in_threadpool(take_in_events, database(), tenant_id, provider, request.headers, body)
    except (UnknownProvider, ValidationError) as error:
        raise HTTPException(404, str(error)) from None
    except BadSignature as error:
        raise HTTPException(403, str(error)) from None
    except BadRequest as error:
        raise HTTPException(406, f"The events cannot be read: {error}") from None
    return PlainTextResponse(f"{stored} stored\n")


mail = Router(
    [
        Route("/mailgun", receive_mailgun, methods=["POST"]),
        Route("/mailgun/mime", receive_mailgun_raw, methods=["POST"]),
        Route("/sendgrid", receive_sendgrid, methods=["POST"]),
        Route("/events/{tenant}/{provider}", receive_events, methods=["POST"]),
    ]
)
