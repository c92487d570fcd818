"""Print the Debian packages that the tests need on this machine and do not find; scripts/test asks."""

import os
from shutil import which

from tests.servers import missing_packages

PROGRAMS = {"promtool": "prometheus", "chromium": "chromium"}  # and where they come from

print(*missing_packages(os.environ), *(package for program, package in PROGRAMS.items() if which(program) is None))
