"""The address without a path: the first screen."""

from fastapi import APIRouter, Request, Response

from console.web.navigation import SCREENS
from console.web.page import Viewer, redirect

router = APIRouter()


@router.get("/")
async def home(request: Request, _person: Viewer) -> Response:
    return redirect(request, SCREENS[0].path)
