"""`scripts/demo`: prepare, run, report."""

import shutil
from pathlib import Path

import click

from scripts.demonstration.cycles import run_cycles
from scripts.demonstration.fake_services import fake_services
from scripts.demonstration.home import Home
from scripts.demonstration.jobs import enqueue_first, enqueue_second
from scripts.demonstration.report import print_report
from scripts.demonstration.sample import fill
from scripts.demonstration.smtp_server import smtp_server

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@click.command()
@click.option(
    "--seconds", type=click.IntRange(10, 3600), default=120, show_default=True, help="Run cycles for this long."
)
@click.option("--until-done", is_flag=True, help="Stop earlier if no job is left.")
@click.option(
    "--people", type=click.IntRange(10, 100_000), default=200, show_default=True, help="Members of the platform."
)
@click.option(
    "--home",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=CHECKOUT / "demo",
    help="Directory of all files; emptied first.  [default: demo/ in the checkout]",
)
def main(seconds: int, until_done: bool, people: int, directory: Path) -> None:
    """Run the handlers on sample people, boards and posts for two minutes, and report the results.

    Nothing leaves this machine: fake services on loopback receive mail, pushes, posts, lookups and prompts.
    """
    home = Home(directory.resolve(), CHECKOUT)
    home.empty()
    with smtp_server(home.mail) as mail, fake_services() as services:
        home.configure(mail.port, services.port)
        click.echo(f"Creating {people} people with boards and posts")
        sample = fill(home, people, services.url)
        enqueue_first(sample)
        run_cycles(home, seconds, lambda: enqueue_second(home), until_done)
        print_report(home, mail, services)


if __name__ == "__main__":
    main(prog_name="scripts/demo", max_content_width=shutil.get_terminal_size().columns)
