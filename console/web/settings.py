"""The effective settings and the source of each. Secrets are masked where the settings are loaded."""

from fastapi import APIRouter, Request, Response

from console.web import export
from console.web.page import Admin, Context, render
from mayfly.errors import SettingsError
from mayfly.settings import load
from mayfly.settings.loading import Origin
from mayfly.settings.sources import DEFAULT

router = APIRouter()


@router.get("/settings")
async def show(request: Request, context: Context, _user: Admin, given: bool = False) -> Response:
    """Read again for every request, as every cycle does; `given` leaves out the defaults."""
    try:
        loaded = await context.run(load)
    except SettingsError as error:
        return render(request, "settings.html", origins=[], given=given, warnings=[], errors=str(error).splitlines())
    origins = [each for each in loaded.origins if not given or each.source != DEFAULT]
    return render(request, "settings.html", origins=origins, given=given, warnings=loaded.warnings, errors=[])


async def exported(context: Context) -> list[export.Facts]:
    return [_facts(each) for each in (await context.run(load)).origins]


def _facts(each: Origin) -> dict[str, str]:
    return {"name": each.name, "value": each.value, "source": each.source}


export.add_routes(router, "settings", exported, Admin)
