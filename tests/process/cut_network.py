"""Cut off a PostgreSQL client in the middle of a transaction. Run as root in its own network namespace.

Prints, as JSON, after how many seconds its session has ended and after how many its next statement has failed.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import make_url

from scripts.faults import network
from scripts.faults.servers import ReachablePostgres
from tests.process.installation import CHECKOUT

WAIT_SECONDS = 40.0  # less than the 90 s after which the server ends any idle transaction
SESSIONS = "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND client_addr IS NOT NULL"
CLIENT = """
import sys, time
from mayfly.db.database import Database
from mayfly.errors import DatabaseAway

def work(connection):
    print("in a transaction", flush=True)
    sys.stdin.readline()
    connection.execute("SELECT 1")

database = Database(sys.argv[1])
database.connect()
try:
    database.run(work)
except DatabaseAway:
    print("away", flush=True)
"""


def main() -> None:
    network.set_up()
    server = ReachablePostgres()
    server.is_reachable = True
    server.parent = Path(tempfile.mkdtemp())
    server.parent.chmod(0o755)
    server.start()
    link = network.Link(1)
    url = make_url(server.url("postgres")).set(host=network.DATABASE_ADDRESS).render_as_string(hide_password=False)
    command = [*link.prefix, sys.executable, "-c", CLIENT, url]
    client = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert client.stdin is not None
    assert client.stdout is not None
    try:
        assert client.stdout.readline() == "in a transaction\n"
        before = _sessions(server)
        link.cut()
        cut_at = time.monotonic()
        client.stdin.write("\n")
        client.stdin.flush()
        answer = client.communicate(timeout=WAIT_SECONDS)[0]
        failed_after = time.monotonic() - cut_at
        while _sessions(server) >= before and time.monotonic() < cut_at + WAIT_SECONDS:
            time.sleep(0.1)
        ended_after = time.monotonic() - cut_at
    finally:
        client.kill()
        link.close()
        server.remove()
    print(json.dumps({"answer": answer.strip(), "failed_after": failed_after, "ended_after": ended_after}))


def _sessions(server: ReachablePostgres) -> int:
    return int(server.execute(SESSIONS)[0][0])


if __name__ == "__main__":
    main()
