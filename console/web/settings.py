"""The settings as they are now, and where each came from. Secrets are masked where they are read."""

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.page import Admin, Here, render
from mayfly.errors import SettingsError
from mayfly.settings import load
from mayfly.settings.loading import Loaded, Origin
from mayfly.settings.sources import DEFAULT

router = APIRouter()


@router.get("/settings")
async def show(request: Request, site: Here, _person: Admin, given: bool = False) -> Response:
    """Those that somebody has given alone, if that is asked for. One that is wrong by now is told."""
    try:
        loaded = await _load(site)
    except SettingsError as error:
        return render(request, "settings.html", origins=[], given=given, warnings=[], wrong=str(error).splitlines())
    origins = [each for each in loaded.origins if not given or each.source != DEFAULT]
    return render(request, "settings.html", origins=origins, given=given, warnings=loaded.warnings, wrong=[])


@router.get("/settings.json")
async def as_json(site: Here, _person: Admin) -> Response:
    return export.as_json("settings", [_facts(each) for each in (await _load(site)).origins])


@router.get("/settings.csv")
async def as_csv(site: Here, _person: Admin) -> Response:
    return export.as_csv("settings", [_facts(each) for each in (await _load(site)).origins])


async def _load(site: ConsoleContext) -> Loaded:
    """Anew: a dispatcher reads them every minute."""
    return await site.run(load)


def _facts(each: Origin) -> dict[str, str]:
    return {"name": each.name, "value": each.value, "source": each.source}
