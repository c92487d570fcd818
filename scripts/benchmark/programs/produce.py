"""Enqueue through mayfly, as an application does. Prints the seconds it took."""

import sys
import time

import mayfly


def main() -> None:
    count = int(sys.argv[2])
    mayfly.enqueue("nothing", {"number": -1})  # opens the connection
    started = time.perf_counter()
    if sys.argv[1] == "one":
        for number in range(count):
            mayfly.enqueue("nothing", {"number": number})
    else:
        mayfly.enqueue_many({"type": "nothing", "payload": {"number": number}} for number in range(count))
    print(time.perf_counter() - started)  # noqa: T201 - the result


if __name__ == "__main__":
    main()
