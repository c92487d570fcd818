"""docs/tutorial.md is correct: its files are an application outside of the checkout, in which jobs run."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import alembic
import pytest

from tests.docs.consoles import CHECKOUT, page_named
from tests.process.installation import wait_until
from tests.servers.private import free_port

PAGE = page_named("tutorial.md")
PACKAGES = ("mayfly", "dispatcher", "runner", "console")
RUN_SECONDS = 90.0

FLASK_REQUEST = """
from shop.web import app
answer = app.test_client().post("/orders/7/receipt")
print(answer.status_code, answer.json["job"])
"""
CREATE_ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item INTEGER NOT NULL)"
DJANGO_FILES = {
    "shop/settings.py": """
from pathlib import Path
SECRET_KEY, ALLOWED_HOSTS, ROOT_URLCONF, INSTALLED_APPS = "secret", ["*"], "shop.urls", ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parents[1] / "django.db"}}
""",
    "shop/models.py": """
from django.db import models
class Order(models.Model):
    item = models.IntegerField()
""",
    "shop/urls.py": """
from django.urls import path
from shop import views
urlpatterns = [path("orders", views.place_order)]
""",
}
DJANGO_REQUEST = """
import shop.django_setup
from django.core.management import call_command
from django.test import Client
call_command("migrate", run_syncdb=True, verbosity=0)
answer = Client().post("/orders", {"item": 3})
print(answer.status_code, answer.json()["order"])
"""


ALEMBIC_INI = "[alembic]\nscript_location = migrations\nprepend_sys_path = .\n"
ALEMBIC_TEMPLATE = "templates/generic/script.py.mako"
# `check` fails if there are changes left.
AUTOGENERATE = """
from alembic.config import main
for arguments in ("revision --autogenerate -m filtered", "upgrade head", "check"):
    main(arguments.split())
"""


def section(heading: str) -> dict[str, str]:
    """The files of one section of the page, by the name in the first line of each."""
    [text] = re.findall(rf"^## {heading}\n(.+?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    return dict(re.findall(r"^```\w*\n# (\S+)\n(.+?)^```$", text, flags=re.MULTILINE | re.DOTALL))


COMMON = section("What is where")


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mayfly as pip installs it, from a copy of the checkout: a build would leave files in it."""
    source = tmp_path_factory.mktemp("source")
    target = tmp_path_factory.mktemp("installed") / "site-packages"
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    for name in PACKAGES:
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, source], check=True)
    return target


class Application:
    """A directory with a virtual environment; what the page installs there is shared by all tests."""

    def __init__(self, home: Path, site_packages: Path, database_url: str, files: dict[str, str]) -> None:
        self.home = home
        venv.create(home / ".venv", with_pip=False)
        self._python = home / ".venv" / "bin" / "python"
        [own] = (home / ".venv" / "lib").glob("python3.*/site-packages")
        (own / "shared.pth").write_text(f"{site_packages}\n{sysconfig.get_path('purelib')}\n")
        dotenv = f"DATABASE_URL={database_url}\nSTATE_DIR=state\nMAX_LOAD=0\n"
        for name, text in {"shop/__init__.py": "", **COMMON, **files, ".env": dotenv}.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)

    def start(self, *arguments: str, cwd: str | Path = "/") -> subprocess.Popen[str]:
        """As cron does, in another directory and without our environment; MAYFLY_HOME is not set."""
        return subprocess.Popen(
            [self._python, *arguments],
            env={"PATH": "/usr/bin:/bin", "HOME": "/"},
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, cwd: str | Path = "/", code: int = 0) -> str:
        """Returns what it has printed."""
        with self.start(*arguments, cwd=cwd) as process:
            output, errors = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == code, output + errors
        return output

    def dispatch(self) -> None:
        """With the command in the page's line for cron."""
        [command] = re.findall(r"^\* \* \* \* \* /srv/shop/\.venv/bin/python (.+)$", PAGE, flags=re.MULTILINE)
        self.run(*command.split())

    def jobs(self) -> list[tuple[str, str, dict[str, int]]]:
        """Status, lane and result of each."""
        with closing(sqlite3.connect(self.home / "mayfly.db")) as connection:
            found = connection.execute("SELECT status, lane, result FROM mayfly_jobs ORDER BY id").fetchall()
        return [(status, lane, json.loads(result or "{}")) for status, lane, result in found]


def make_application(home: Path, site_packages: Path, files: dict[str, str]) -> Application:
    return Application(home, site_packages, f"sqlite:///{home}/mayfly.db", files)


def test_everything_is_found_in_its_place(tmp_path: Path, site_packages: Path) -> None:
    """The home of a virtual environment, with handlers, settings, schedules and the log."""
    application = make_application(tmp_path, site_packages, {})

    application.run("-m", "mayfly", "migrate")
    application.dispatch()

    doctor = application.run("-m", "mayfly", "doctor")
    assert f"MAYFLY_HOME is {tmp_path}" in doctor
    assert "problem" not in doctor
    assert "(cron.d/schedule, line 1)" in application.run("-m", "mayfly", "schedules")
    assert "No pending jobs" in (tmp_path / "logs" / "dispatcher.log").read_text()


def test_flask_enqueues_a_job(tmp_path: Path, site_packages: Path) -> None:
    """And the next cycle runs it."""
    application = make_application(tmp_path, site_packages, section("Flask"))

    answer = application.run("-c", FLASK_REQUEST, cwd=tmp_path)
    application.dispatch()

    assert answer.split()[0] == "202"
    assert application.jobs() == [("done", "mail", {"sent": 7})]


def test_fastapi_commits_an_order_with_its_job(tmp_path: Path, site_packages: Path) -> None:
    """In a real server."""
    application = make_application(tmp_path, site_packages, section("FastAPI"))
    application.run("-m", "mayfly", "migrate")
    with closing(sqlite3.connect(tmp_path / "mayfly.db")) as connection:
        connection.execute(CREATE_ORDERS)

    with served(application) as address:
        request = Request(f"{address}/orders?item=3", method="POST")
        with urlopen(request, timeout=RUN_SECONDS) as answer:
            status = answer.status
    application.dispatch()

    assert status == 202
    assert application.jobs() == [("done", "mail", {"sent": 1})]


def test_django_enqueues_after_the_commit(tmp_path: Path, site_packages: Path) -> None:
    """The handler finds the order through Django's models."""
    application = make_application(tmp_path, site_packages, {**DJANGO_FILES, **section("Django")})

    answer = application.run("-c", DJANGO_REQUEST, cwd=tmp_path)
    application.dispatch()

    assert answer.split() == ["202", "1"]
    assert application.jobs() == [("done", "mail", {"sent": 1})]


def test_autogenerate_ignores_mayflys_tables(tmp_path: Path, site_packages: Path, migrated_url: str) -> None:
    """With the page's filter, the only change is the application's own table; without it, Mayfly's are dropped."""
    files = {**section("FastAPI"), **section("Alembic"), "alembic.ini": ALEMBIC_INI}
    files["migrations/script.py.mako"] = (Path(alembic.__file__).parent / ALEMBIC_TEMPLATE).read_text()
    (tmp_path / "migrations" / "versions").mkdir(parents=True)
    application = Application(tmp_path, site_packages, migrated_url, files)

    application.run("-c", AUTOGENERATE, cwd=tmp_path)
    unfiltered = files["migrations/env.py"].replace(", include_object=include_object", "")
    (tmp_path / "migrations" / "env.py").write_text(unfiltered)
    application.run("-m", "alembic", "revision", "--autogenerate", "-m", "unfiltered", cwd=tmp_path)

    assert operations(tmp_path, "filtered") == [("create_table", "orders"), ("drop_table", "orders")]
    assert ("drop_table", "mayfly_jobs") in operations(tmp_path, "unfiltered")


def operations(home: Path, revision: str) -> list[tuple[str, str]]:
    """On tables, of its upgrade and then its downgrade."""
    [script] = (home / "migrations" / "versions").glob(f"*_{revision}.py")
    return re.findall(r"op\.(\w+_table)\('(\w+)'", script.read_text())


@contextmanager
def served(application: Application) -> Iterator[str]:
    """The address of the application's web server, until the end of the block."""
    port = free_port()
    server = application.start("-m", "uvicorn", "shop.web:app", "--port", str(port), cwd=application.home)

    def answers() -> bool:
        assert server.poll() is None, server.communicate()
        try:
            urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=RUN_SECONDS).close()
        except URLError:
            return False
        return True

    try:
        wait_until(answers, "the server answers")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.communicate()
