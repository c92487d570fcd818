"""The command line of the torture test."""

import os
import random
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp

import click

from mayfly.format import plural
from mayfly.process import exits
from mayfly.schema.migrations import migrate
from scripts.faults import audit, network
from scripts.faults.check import violations
from scripts.faults.collect import collect
from scripts.faults.database import TortureDatabase
from scripts.faults.evidence import RECOVERY, Evidence
from scripts.faults.history import DIRECTORY, note
from scripts.faults.hosts import CHECKOUT, Host, Pace
from scripts.faults.nemesis import Nemesis

NORMAL = Pace(tick_seconds=10, worker_timeout=6, dispatch_timeout=8)
SHORT = Pace(tick_seconds=4, worker_timeout=2, dispatch_timeout=3)  # for runs below half a minute
START = "import dispatcher.cycle, runner.main, scripts.faults.jobs"
USUAL_START_SECONDS = 0.8
MAX_SLOWNESS = 5.0
DRAIN_SECONDS = 90.0  # without progress
SHOWN = 20
DATABASES = ("sqlite", "mariadb", "postgres", "galera")
CLOCK_SOURCE = CHECKOUT / "tests" / "process" / "skewclock.c"


@dataclass(frozen=True)
class Plan:
    database: str
    seconds: float
    hosts: int
    rate: float
    faults: tuple[str, ...]
    seed: int
    with_network: bool
    with_small_disks: bool

    @cached_property
    def pace(self) -> Pace:
        """A machine that needs seconds to start a process would run no job in a window of two."""
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", START], cwd=CHECKOUT, check=True)  # noqa: S603
        factor = (time.monotonic() - started) / USUAL_START_SECONDS
        return (SHORT if self.seconds < 30 else NORMAL).slowed(min(max(1.0, factor), MAX_SLOWNESS))


@click.command(
    help="Run Mayfly on several hosts with real servers, dispatchers and producers, inject faults, let everything"
    " recover, and check every guarantee. Exit code 1 if one was broken; the seed repeats the choice of faults."
)
@click.option("--minutes", default=2.0, show_default=True, type=click.FloatRange(0.05, 600), help="Time with faults.")
@click.option("--database", default="sqlite", show_default=True, type=click.Choice(DATABASES))
@click.option(
    "--faults", default="all", show_default=True, metavar="NAMES", help="`all`, `none`, or names with commas."
)
@click.option("--hosts", default=3, show_default=True, type=click.IntRange(1, 20))
@click.option("--rate", default=8.0, show_default=True, help="Jobs per second and host.")
@click.option("--seed", type=int, help="Seed for faults and jobs. [default: random, printed]")
def command(minutes: float, database: str, faults: str, hosts: int, rate: float, seed: int | None) -> int:
    names = () if faults == "none" else tuple(faults.split(","))
    wants = {"cut_network", "drop_replies", "all"} & set(names)
    with_network = bool(wants) and database != "sqlite" and network.is_available()
    if with_network and not network.is_inside():
        network.reexecute(sys.argv[1:])
    with_small_disks = bool({"fill_disk", "all"} & set(names)) and os.geteuid() == 0
    plan = Plan(
        database, minutes * 60, hosts, rate, names, seed or secrets.randbelow(2**31), with_network, with_small_disks
    )
    click.echo(f"Seed {plan.seed}. {hosts} hosts on {database}, {minutes:g} min with faults.", err=True)
    with torture(plan) as evidence:
        return report(evidence)


@contextmanager
def torture(plan: Plan) -> Iterator[Evidence]:
    """Run the whole test in a temporary directory; yields the evidence while the directory exists."""
    directory = Path(mkdtemp(prefix="mayfly-torture-", dir="/dev/shm" if plan.database == "sqlite" else None))  # noqa: S108
    directory.chmod(0o755)
    history = directory / "history"
    history.mkdir()
    os.environ[DIRECTORY] = str(history)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        if plan.with_network:
            network.set_up()
        database = TortureDatabase(plan.database, directory / "data", plan.with_small_disks)
        stack.callback(database.close)
        migrate(database.url)
        with database.connect() as connection:
            audit.install(connection, database.engine_name)
        hosts = [_host(plan, number, directory, database.host_url(number)) for number in range(1, plan.hosts + 1)]
        for host in hosts:
            stack.callback(host.close)
        run(plan, database, hosts)
        yield collect(database, hosts, history)


def run(plan: Plan, database: TortureDatabase, hosts: list[Host]) -> None:
    choice = random.Random(plan.seed)  # noqa: S311 - repeatable
    nemesis = Nemesis(database, hosts, choice)
    names = [name for name in nemesis.names() if "all" in plan.faults or name in plan.faults]
    for number, host in enumerate(hosts):
        host.start(plan.rate, plan.seed + number)
    ends_at = time.monotonic() + plan.seconds
    while (left := ends_at - time.monotonic()) > 0:
        time.sleep(min(left, choice.uniform(0.3, 0.4 * plan.pace.tick_seconds)))
        if names:
            nemesis.inject(choice.choice(names))
    if names:
        heal(database, hosts)
    for host in hosts:
        host.stop_producer()
    drain(database)
    for host in hosts:
        host.stop_cron()


def heal(database: TortureDatabase, hosts: list[Host]) -> None:
    """A fault as well: a server that has died is started again only now."""
    click.echo("Recovering.", err=True)
    note("fault", number=-1, name=RECOVERY, host=None)
    database.heal()
    for host in hosts:
        host.heal()
    note("fault_over", number=-1, missed=False)


def drain(database: TortureDatabase) -> None:
    """Dispatchers continue until every job is finished and every runner closed, as long as there is progress.

    A cycle that could not close its runners, for example on a full disk, leaves that to the next one.
    """
    unfinished = (
        "SELECT (SELECT COUNT(*) FROM mayfly_jobs WHERE status IN ('pending', 'processing'))"
        " + (SELECT COUNT(*) FROM mayfly_runners WHERE finished_at IS NULL)"
    )
    before, deadline = 0, 0.0
    while left := database.rows(unfinished)[0][0]:
        if left != before:
            before, deadline = left, time.monotonic() + DRAIN_SECONDS
        elif time.monotonic() > deadline:
            break
        time.sleep(0.5)


def report(evidence: Evidence) -> int:
    faults = Counter(each.name for each in evidence.faults if each.name != RECOVERY)
    statuses = Counter(job.status for job in evidence.jobs)
    click.echo(f"{len(evidence.jobs):,} jobs ({_counts(statuses)}), {len(evidence.events('start')):,} handler runs.")
    click.echo(f"{faults.total()} faults: {_counts(faults) or 'none'}. {len(evidence.exits)} cycles.")
    found = violations(evidence)
    for line in found[:SHOWN]:
        click.echo(f"BROKEN {line}")
    if len(found) > SHOWN:
        click.echo(f"… and {len(found) - SHOWN} more")
    click.echo("Every guarantee held." if not found else f"{plural(len(found), 'violation')}.")
    return exits.ERROR if found else exits.SUCCESS


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in sorted(counter.items()))


def _host(plan: Plan, number: int, directory: Path, url: str) -> Host:
    link = network.Link(number) if plan.with_network else None
    return Host(f"host{number}", directory, url, directory / "history", plan.pace, _clock_library(directory), link)


def _clock_library(directory: Path) -> Path | None:
    """Steps the wall clock of processes; None without a C compiler."""
    library, compiler = directory / "skewclock.so", shutil.which("cc")
    if compiler is not None and not library.exists():
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, CLOCK_SOURCE, "-ldl"], check=True)  # noqa: S603
    return library if compiler is not None else None


def main() -> None:
    exits.run_command(command, "scripts/torture")
