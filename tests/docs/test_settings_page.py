"""docs/reference/settings.md has every setting, and its examples load."""

import re
from pathlib import Path

from mayfly.settings import load
from mayfly.settings.model import AccountModel, LaneModel, SettingsModel, variable_of
from mayfly.settings.source_model import SourceModel
from tests.docs.consoles import page_named

PAGE = page_named("reference/settings.md").partition("\n## PostgreSQL\n")[0]


def block_of(language: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


def test_the_tables_have_every_setting() -> None:
    """With its meaning; so no table or list has lost its marks."""
    names = [variable_of((name,)) for name in SettingsModel.model_fields]
    for name in (*names, *LaneModel.model_fields, *AccountModel.model_fields, *SourceModel.model_fields):
        assert re.search(rf"^(- |\| )`{name}` ", PAGE, re.MULTILINE), name
    for model in (SettingsModel, LaneModel, AccountModel, SourceModel):
        assert all(field.description for field in model.model_fields.values())


def test_the_examples_load(tmp_path: Path) -> None:
    """Without a warning."""
    (tmp_path / "mayfly.toml").write_text(block_of("toml"))
    (tmp_path / ".env").write_text(block_of("sh"))

    loaded = load({"MAYFLY_HOME": str(tmp_path)})

    assert loaded.warnings == ()
    assert loaded.settings.lane("send_email").pool == "email"
    assert loaded.settings.database_url.get_secret_value().startswith("mysql+pymysql://mayfly:")
