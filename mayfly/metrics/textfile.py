"""Write the metrics where node_exporter's textfile collector finds them: whole, or not at all."""

import os
from pathlib import Path

from mayfly.errors import TextfileUnwritable


def write_textfile(path: Path, text: bytes) -> None:
    """Renamed into its place, so that nobody reads half of it; as readable as any other in that directory."""
    new = path.with_name(f".{path.name}.{os.getpid()}")  # no .prom at its end: not read
    try:
        try:
            new.write_bytes(text)
            new.chmod(0o644)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise TextfileUnwritable(path, str(error.strerror)) from error
