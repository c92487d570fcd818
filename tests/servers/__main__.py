"""Print the Debian packages that the tests need on this machine and do not find; scripts/test asks."""

import os

from tests.servers import missing_packages

print(*missing_packages(os.environ))
