"""`python -m mayfly`, and the command `mayfly`. Programs start without click: cron starts one every minute."""

import sys

from mayfly.errors import MayflyError
from mayfly.process import exits
from mayfly.process.programs import PROGRAMS, run_program


def main() -> None:
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if verb in PROGRAMS:
        try:
            run_program(verb, sys.argv[2:])
        except MayflyError as error:
            sys.exit(exits.report_error(error))
    else:
        from mayfly.cli import main as run_verb  # here: it imports click

        run_verb()


if __name__ == "__main__":
    main()
