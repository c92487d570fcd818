"""A host that loses the network to its database: neither side waits long for the other."""

import json
import subprocess
import sys

import pytest

from scripts.faults import network
from tests.process.installation import CHECKOUT


@pytest.mark.slow
@pytest.mark.skipif(not network.is_available(), reason="needs root, ip and nft, for network namespaces")
def test_a_disconnected_host_holds_no_session() -> None:
    """The server ends the session and its locks long before the idle timeout; the client gives up too."""
    command = ["unshare", "--net", sys.executable, "-m", "tests.process.cut_network"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["answer"] == "away"
    assert seen["failed_after"] < 30
    assert seen["ended_after"] < 30
