"""End what nobody waits for any more: processes that left their runner's group came to whoever adopts orphans."""

from collections.abc import Collection
from contextlib import suppress

import psutil


def end_strays(spare: Collection[int] = ()) -> None:
    """All children of this process with all of theirs, but for those (see prctl.adopt_orphans)."""
    strays: list[psutil.Process] = []
    for each in psutil.Process().children():
        if each.pid not in spare:
            with suppress(psutil.NoSuchProcess):
                strays += [each, *each.children(recursive=True)]
    for stray in strays:
        try:
            stray.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(strays, timeout=1)
