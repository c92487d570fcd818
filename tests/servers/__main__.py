"""Print the Debian packages that the tests need and this machine lacks; used by scripts/test.
With `slow`, also those of slow tests; with `torture`, also those of scripts/torture, which otherwise skips Galera and
faults of the network; with TEST_GALERA, also those of a cluster.
"""

import os
import sys
from pathlib import Path
from shutil import which

from tests.servers import Dovecot, Postfix, Slurm, Sshd, missing_packages

PROGRAMS = {"promtool": "prometheus", "chromium-headless-shell": "chromium-headless-shell"}  # and their packages
TORTURE_PROGRAMS = {"ip": "iproute2", "nft": "nftables", "rsync": "rsync"}
GALERA = Path("/usr/lib/galera/libgalera_smm.so")

programs, packages = PROGRAMS, missing_packages(os.environ)
if "slow" in sys.argv:
    packages += [server.package for server in (Dovecot, Postfix, Sshd) if server.programs() is None]
    packages += [] if Slurm.is_installed() else [Slurm.package]
if "torture" in sys.argv or os.environ.get("TEST_GALERA"):
    programs = {**PROGRAMS, **TORTURE_PROGRAMS}
    packages += [] if GALERA.exists() else ["galera-4"]
print(*packages, *(package for program, package in programs.items() if which(program) is None))
