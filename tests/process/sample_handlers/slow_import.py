"""A module of handlers whose import takes long: it waits until the gate opens."""

import os
import time
from pathlib import Path

while not (Path(os.environ["MAYFLY_HOME"]) / "go").exists():
    time.sleep(0.01)
