"""Print the share of killed mutants per module, and those that no test detects: `mutation_score.py MINIMUM`.

The input is the output of `mutmut results --all true`: one line `mayfly.fleet.plan.x_slots__mutmut_1: killed` each.
"""

import sys
from collections import Counter, defaultdict

import click

DETECTED = {"killed", "timeout", "segfault", "caught by type check"}


@click.command()
@click.argument("minimum", type=float)
def main(minimum: float) -> None:
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for line in filter(None, map(str.strip, sys.stdin)):
        name, _, status = line.partition(": ")
        module = name.partition(".x")[0]
        counts[module][status in DETECTED] += 1
        if status not in DETECTED:
            click.echo(f"{status}: {name}")
    for module, found in sorted(counts.items()):
        click.echo(f"{module}: {_percent(found):.1f} % of {found.total()} mutants detected")
    weak = [module for module, found in counts.items() if _percent(found) < minimum]
    if weak or not counts:
        raise click.ClickException(f"below {minimum:g} %: {', '.join(weak) or 'no mutants'}")


def _percent(found: Counter[bool]) -> float:
    return 100 * found[True] / found.total()


if __name__ == "__main__":
    main()
