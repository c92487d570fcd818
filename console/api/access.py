"""What a route needs of a token, and how bodies are read."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from console.site import Site, site_of, token_of
from mayfly import jsontext
from mayfly.access.tokens import Token

bearer = HTTPBearer(auto_error=False, description="A token made by `mayfly token create`.")

Here = Annotated[Site, Depends(site_of)]
Asker = Annotated[Token, Depends(token_of)]


def needs(scope: str) -> Any:
    """A dependency of every route that is not for all tokens."""

    def check(token: Asker, _documented: Annotated[Any, Security(bearer)] = None) -> None:
        if scope not in token.scopes:
            raise HTTPException(403, f"The token {token.name} has not the scope {scope!r}: make one that has.")

    return Depends(check)


class JsonRequest(Request):
    """Whatever cannot be read is the sender's mistake, and is told as one."""

    async def json(self) -> Any:
        body = await self.body()
        try:
            return jsontext.decode_bounded(body.decode("utf-8"))
        except ValueError as error:
            raise HTTPException(422, f"The body is no JSON that can be read: {error}.") from error


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def read(request: Request) -> Response:
            return await answer(JsonRequest(request.scope, request.receive))

        return read
