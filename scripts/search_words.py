"""Search the index that the job rebuild_search_index builds.

scripts/search runs it with the Python of the checkout.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

try:
    from sqlalchemy import Connection

    from handlers.search.query import Hit, find
    from mayfly.client import current_app
    from mayfly.db.dialects import Unit
    from mayfly.errors import MayflyError, SchemaMissing
    from mayfly.process import exits
except ImportError as error:
    sys.exit(f"{error.name} is not installed for {sys.executable}: run scripts/quickstart, which installs it.")

T = TypeVar("T")

MAX_HITS = 1000
NO_INDEX = "There is no search index: run `mayfly migrate --app`, then `mayfly enqueue rebuild_search_index`."


def main(arguments: list[str]) -> int:
    options = parse_options(arguments)
    try:
        hits = find(read, " ".join(options.words), options.most)
    except SchemaMissing:
        hits = None
    except MayflyError as error:
        return refuse(str(error))
    if hits is None:
        return refuse(NO_INDEX)
    lines = [json.dumps([hit._asdict() for hit in hits])] if options.json else map(line_of, hits)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return exits.SUCCESS


def read(work: Callable[[Connection], T]) -> T:
    return current_app().database.run_sqlalchemy(work, Unit.READ)


def refuse(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return exits.ERROR


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(exits.USAGE, f"{self.format_usage()}{self.prog}: {message}\n")


def parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="scripts/search", description="Find prospects, boards and posts that contain all of these words."
    )
    parser.add_argument("words", nargs="+", metavar="WORD", help="whole words; case and accents are ignored")
    parser.add_argument(
        "--most", type=number_of_hits, default=20, metavar="N", help="maximum number of results (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(arguments)


def number_of_hits(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:5]) <= MAX_HITS:
        raise argparse.ArgumentTypeError(f"must be an integer from 1 to {MAX_HITS}")
    return int(text)


def line_of(hit: Hit) -> str:
    """Text of users must not control the terminal."""
    shown = f"{hit.kind} {hit.id}  {hit.title}  {hit.snippet}"
    return "".join(each if each.isprintable() else "�" for each in shown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
