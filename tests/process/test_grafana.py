"""The dashboard of deploy/grafana against a real Prometheus that has scraped real metrics."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mayfly.schema.migrations import migrate
from tests.databases import Databases
from tests.process.installation import CHECKOUT, Installation, wait_until
from tests.servers import Unavailable
from tests.servers.private import free_port

DASHBOARD = json.loads((CHECKOUT / "deploy/grafana/mayfly.json").read_text())
VARIABLES = {"$__rate_interval": "1m", "$lane": ".*"}
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
CONFIG = """
global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}
scrape_configs:
  - job_name: mayfly
    metrics_path: /mayfly.prom
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not installed; on Debian, apt-get install prometheus brings it.")
    return found


@pytest.fixture(scope="module")
def prometheus(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL, once it has scraped two cycles with jobs of several outcomes, which each cycle wrote to a file."""
    home = tmp_path_factory.mktemp("grafana")
    databases.copy_file(migrate, home / "mayfly.db")
    installation = Installation(home, f"sqlite:///{home}/mayfly.db", {"METRICS_TEXTFILE": f"{home}/www/mayfly.prom"})
    (home / "www").mkdir()
    scraped, port = free_port(), free_port()
    (home / "prometheus.yml").write_text(CONFIG.format(port=scraped))
    server = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", f"{home}/www", str(scraped)]
    database = [program("prometheus"), f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
                f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
    run_jobs(installation)
    with (
        (home / "server.log").open("w") as log,
        subprocess.Popen(server, stdout=log, stderr=log) as serving,
        subprocess.Popen(database, stdout=log, stderr=log) as started,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: query(url, "mayfly_jobs_total") != [], "the metrics of the first cycle")
            run_jobs(installation)
            wait_until(lambda: query(url, "increase(mayfly_cycles_total[1m]) > 0") != [], "those of the second")
            yield url
        finally:
            started.terminate()
            serving.terminate()
            installation.end()


def run_jobs(installation: Installation) -> None:
    """With jobs that are done, dead and late."""
    installation.enqueue("noop", count=3)
    installation.enqueue("give_up")
    assert installation.dispatch().returncode == 0


def query(url: str, expression: str) -> list[Mapping[str, Any]]:
    command = [program("promtool"), "query", "instant", "--format=json", url, expression]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found: list[Mapping[str, Any]] = json.loads(asked.stdout or "[]")
    return found


def test_every_query_returns_a_series(prometheus: str) -> None:
    """With the variables that Grafana would put in, each panel shows something."""
    empty = {(title, text) for title, text in QUERIES if not query(prometheus, filled(text))}

    assert empty == set()


def filled(text: str) -> str:
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    assert "$" not in text
    return text


def test_the_lanes_to_choose_from_are_those_with_metrics(prometheus: str) -> None:
    """The list of the variable is a label of a metric that exists."""
    [variable] = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]

    assert {each["metric"][label] for each in query(prometheus, metric)} == {"default"}


def test_every_panel_has_a_title_and_a_place_of_its_own() -> None:
    """No two overlap in the grid of 24 columns."""
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert all(panel["title"] for panel in DASHBOARD["panels"])
