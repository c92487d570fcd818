"""The yardstick of starting runners: as many forks, each of which connects and asks once. Prints the seconds."""

import sys
import time

from scripts.benchmark.programs.connect import connect, load_driver
from scripts.benchmark.programs.loop import in_processes


def ask() -> None:
    cursor = connect().cursor()
    cursor.execute("SELECT 1")
    cursor.fetchone()


def main() -> None:
    load_driver()  # before the fork: once for all
    started = time.perf_counter()
    failed = in_processes(int(sys.argv[1]), ask)
    print(time.perf_counter() - started)  # noqa: T201 - its answer
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
