"""Events of mail providers: POST /hooks/events/TENANT/PROVIDER.

Status 200 means that the events are committed. Providers send them again after other answers.
"""

from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router

from handlers.mailroom.event_intake import MAX_BODY_BYTES, NotAuthentic, UnknownProvider, take_in_events
from handlers.mailroom.provider_events import BadRequest
from handlers.payloads import Tenant
from mayfly import database

TENANT: TypeAdapter[str] = TypeAdapter(Tenant)


async def receive_events(request: Request) -> Response:
    body, provider = await _body(request), request.path_params["provider"]
    try:
        tenant_id = TENANT.validate_python(request.path_params["tenant"])
        stored = await run_in_threadpool(take_in_events, database(), tenant_id, provider, request.headers, body)
    except (UnknownProvider, ValidationError) as error:
        raise HTTPException(404, str(error)) from None
    except NotAuthentic as error:
        raise HTTPException(403, str(error)) from None
    except BadRequest as error:
        raise HTTPException(406, f"The events cannot be read: {error}") from None
    return PlainTextResponse(f"{stored} stored\n")


async def _body(request: Request) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise HTTPException(413, f"The request has more than {MAX_BODY_BYTES:,} bytes.")
    return bytes(content)


events = Router([Route("/{tenant}/{provider}", receive_events, methods=["POST"])])
