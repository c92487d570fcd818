"""docs/how-to/console.md is correct: its commands, roles, figures and pictures."""

import hmac
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from console.rate_limit import FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS
from console.web.actions import MAX_AT_ONCE
from mayfly.settings.model import SettingsModel
from mayfly.settings.values import ROLES
from tests.docs.consoles import CHECKOUT, blocks, page_named
from tests.process.console.api import Api
from tests.process.installation import Installation

PAGE = page_named("how-to/console.md")
PAGES = {"docs/how-to/console.md": PAGE, "README.md": (CHECKOUT / "README.md").read_text("utf-8")}


def test_the_roles_equal_the_code() -> None:
    """The one with the fewest rights first."""
    listed = PAGE.partition("## Accounts and roles")[2].partition("\n## ")[0]

    assert re.findall(r"^- `(\w+)`:", listed, flags=re.MULTILINE) == list(ROLES)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    yield made
    made.end()


def test_the_password_command_works_as_shown(embedded: Installation) -> None:
    """It prints settings that the console accepts; without one the console does not start."""
    [first, other] = (line.split("#")[0].split() for line in re.findall(r"^mayfly password.*$", PAGE, re.MULTILINE))
    refused = embedded.run("console")
    lines = [line for command in (first, other) for line in ask(embedded, command)]
    settings = dict(line.partition("=")[::2] for line in lines)

    assert (refused.returncode, "`mayfly password`" in refused.stderr) == (64, True)
    assert [*settings] == [
        "CONSOLE_PASSWORD_HASH",
        "CONSOLE_ACCOUNTS__ANN__ROLE",
        "CONSOLE_ACCOUNTS__ANN__PASSWORD_HASH",
    ]
    assert re.fullmatch(r"'\$argon2id\$.+'", settings["CONSOLE_PASSWORD_HASH"])
    (embedded.home / ".env").write_text("\n".join(lines))
    checked = embedded.run("mayfly", "config", "--json")
    assert (checked.returncode, "argon2id" in checked.stdout + checked.stderr) == (0, False)


def ask(installation: Installation, command: list[str]) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-m", *command], env=installation.environment(), input="correct horse battery\n",
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return ran.stdout.splitlines()


def test_the_figures_equal_the_code() -> None:
    """Those written in words."""
    assert (FIRST_WAIT_SECONDS, f"up to {MAX_WAIT_SECONDS / 60:g} minutes" in PAGE) == (30, True)
    assert f"More than {MAX_AT_ONCE} jobs" in PAGE
    assert [each for each in SettingsModel.model_fields["redact"].default if f"`{each}`" not in PAGE] == []


def test_every_named_setting_exists() -> None:
    """Every name in capitals that looks like one."""
    settings = page_named("reference/settings.md")

    for name in set(re.findall(r"\b(?:CONSOLE_[A-Z_]+|REDACT)\b", PAGE)):
        assert f"`{name}`" in settings, name


@pytest.mark.parametrize("page", PAGES)
def test_the_pictures_exist_and_have_alternative_texts(page: str) -> None:
    """They are made by scripts/screenshots."""
    pictures = re.findall(r"!\[(.*?)\]\((.+?)\)|<img src=\"(.+?)\" alt=\"(.+?)\"", PAGES[page])

    assert pictures
    for text, path, source, alternative in pictures:
        assert ((CHECKOUT / page).parent / (path or source)).is_file()
        assert len(text or alternative) > 10


def test_the_service_starts_an_existing_module() -> None:
    """The one after `python -m`."""
    [unit] = blocks(PAGE, "ini")
    [module] = re.findall(r"python -P -m (\w+)", unit)

    assert (CHECKOUT / module / "__main__.py").is_file()


def test_the_routes_check_the_signature(tmp_path: Path) -> None:
    """In a real console: a signed request is stored as a job, another one is refused."""
    package = tmp_path / "shop" / "orders"
    package.mkdir(parents=True)
    [declared] = [each for each in blocks(page_named("reference/python.md"), "python") if "__routes__" in each]
    (package / "__init__.py").write_text(declared)
    (package / "routes.py").write_text(blocks(PAGE, "python")[0])
    settings = {"HANDLERS": "shop.orders", "ORDERS_KEY": "secret"}
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", settings)
    made.run("mayfly", "migrate")
    address = f"http://127.0.0.1:{Api(made).port}/hooks/orders/new"
    signature = hmac.new(b"secret", b"7", "sha256").hexdigest()

    with pytest.raises(HTTPError, match="403"):
        urlopen(Request(address, b"7", {"signature": "0" * 64}), timeout=60)
    with urlopen(Request(address, b"7", {"signature": signature}), timeout=60) as stored:
        assert stored.read() == b"stored\n"

    assert made.rows("SELECT type, payload FROM mayfly_jobs") == [("import_order", '{"order":"7"}')]
    made.end()
