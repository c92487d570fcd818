"""`scripts/demo`: prepare, run, tell."""

import shutil
from pathlib import Path

import click

from scripts.demonstration.home import Home
from scripts.demonstration.post import post_office
from scripts.demonstration.running import run_cycles
from scripts.demonstration.sample import fill
from scripts.demonstration.standins import stand_ins
from scripts.demonstration.telling import tell
from scripts.demonstration.work import enqueue_first, enqueue_second

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@click.command()
@click.option(
    "--seconds", type=click.IntRange(10, 3600), default=120, show_default=True, help="How long cycles are run."
)
@click.option("--until-done", is_flag=True, help="Or until nothing is left to do, if that is earlier.")
@click.option(
    "--people", type=click.IntRange(10, 100_000), default=200, show_default=True, help="Members of the platform."
)
@click.option(
    "--home",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=CHECKOUT / "demo",
    help="Where all of it is written; emptied first.  [default: demo/ in the checkout]",
)
def main(seconds: int, until_done: bool, people: int, directory: Path) -> None:
    """Fill a platform with sample people, boards and posts, let Mayfly work for two minutes, and show what it did.

    Nothing leaves this machine: mail, pushes, posts, lookups and the language model go to stand-ins on loopback.
    """
    home = Home(directory.resolve(), CHECKOUT)
    home.empty()
    with post_office(home.mail) as office, stand_ins() as outside:
        home.furnish(office.port, outside.port)
        click.echo(f"Filling a platform with {people} people, boards and posts")
        sample = fill(home, people, outside.url)
        enqueue_first(sample)
        run_cycles(home, seconds, lambda: enqueue_second(home), until_done)
        tell(home, office, outside)


if __name__ == "__main__":
    main(prog_name="scripts/demo", max_content_width=shutil.get_terminal_size().columns)
