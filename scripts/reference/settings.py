"""The tables of docs/reference/settings.md, from the models of the settings."""

from collections.abc import Mapping
from tempfile import TemporaryDirectory

from pydantic.fields import FieldInfo

from mayfly.settings import load
from mayfly.settings.launcher_model import COMMAND_LINES, LauncherModel
from mayfly.settings.model import AccountModel, LaneModel, SettingsModel, allowed_values, variable_of
from mayfly.settings.source_model import SourceModel
from scripts.reference.markdown import table

BY_MACHINE = {"home": "[see below](#home)", "host_name": "the system's"}


def page(current: str) -> str:
    """The page with a new table between each pair of markers."""
    tables = {
        "settings": settings_rows(), "lanes": lanes_rows(), "accounts": accounts_rows(), "sources": sources_rows(),
        "launchers": launchers_rows(),
    }  # fmt: skip
    for name, (head, *rows) in tables.items():
        start, end = f"<!-- {name}: written by scripts/docs reference -->\n", f"<!-- end of {name} -->"
        before, rest = current.split(start)
        current = f"{before}{start}\n{table(head, rows)}\n{end}{rest.split(end)[1]}"
    return current


def settings_rows() -> list[tuple[str, ...]]:
    defaults = _shown_defaults()
    rows = [
        (f"`{variable_of((name,))}`", defaults.get(name, "none"), allowed_values(field), field.description or "")
        for name, field in SettingsModel.model_fields.items()
    ]
    return [("name", "default", "allowed", "meaning"), *rows]


def lanes_rows() -> list[tuple[str, ...]]:
    fields = sorted(LaneModel.model_fields.items(), key=lambda item: item[0] not in SettingsModel.model_fields)
    rows = [
        (f"`{name}`", _lane_default(name, field.default), allowed_values(field), field.description or "")
        for name, field in fields
    ]
    return [("name", "default", "allowed", "meaning"), *rows]


def accounts_rows() -> list[tuple[str, ...]]:
    rows = [
        (f"`{name}`", allowed_values(field), field.description or "")
        for name, field in AccountModel.model_fields.items()
    ]
    return [("name", "allowed", "meaning"), *rows]


def sources_rows() -> list[tuple[str, ...]]:
    rows = [
        (f"`{name}`", _source_default(field), allowed_values(field), field.description or "")
        for name, field in SourceModel.model_fields.items()
    ]
    return [("name", "default", "allowed", "meaning"), *rows]


def launchers_rows() -> list[tuple[str, ...]]:
    rows = [
        (f"`{name}`", _launcher_default(name, field), allowed_values(field), field.description or "")
        for name, field in LauncherModel.model_fields.items()
    ]
    return [("name", "default", "allowed", "meaning"), *rows]


def _launcher_default(name: str, field: FieldInfo) -> str:
    if name in COMMAND_LINES or name == "manifest":
        return "of the preset"
    return "none" if field.default is None else f"`{field.default:g}`"


def _source_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return f"`{field.default}`" if field.default else "none"


def _shown_defaults() -> Mapping[str, str]:
    """As in `mayfly config`, but with paths relative to home."""
    with TemporaryDirectory() as home:
        shown = {each.name: each.value.replace(f"{home}/", "") for each in load({"MAYFLY_HOME": home}).origins}
    fields = {name: shown.get(variable_of((name,)), "none") for name in SettingsModel.model_fields}
    return {name: value if value == "none" else f"`{value}`" for name, value in fields.items()} | BY_MACHINE


def _lane_default(name: str, default: object) -> str:
    if name in SettingsModel.model_fields:
        return f"`{name.upper()}`"
    return "none" if default is None else f"`{str(default).lower()}`"
