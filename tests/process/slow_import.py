"""A module of handlers whose import takes longer than a job may wait."""

import time

time.sleep(2)
