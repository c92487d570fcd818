"""Long polls: hundreds of workers share few connections, and every poll ends."""

import asyncio
import json
import threading
import time
from contextlib import suppress
from typing import Any

import psutil
import pytest
from sqlalchemy import make_url

from tests.process.console.api import Api
from tests.process.installation import wait_until

POLLERS = 200


def database_connections(api: Api) -> int:
    """Those that the console has open; 0 for SQLite.

    Counted in its process: the server still lists connections that the test has closed a moment ago.
    """
    port = make_url(api.installation.url).port
    return sum(each.raddr[1:] == (port,) for each in psutil.Process(api.process.pid).net_connections("tcp"))


def clients(api: Api) -> int:
    """Accepted connections."""
    found = psutil.Process(api.process.pid).net_connections("tcp4")
    return sum(each.laddr.port == api.port and each.status == psutil.CONN_ESTABLISHED for each in found)


def is_known(api: Api) -> bool:
    """A request with the token was accepted."""
    return api.installation.rows("SELECT last_used_at FROM mayfly_tokens")[0].last_used_at is not None


async def poll(api: Api, wait: float) -> list[dict[str, Any]]:
    """One poll on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    body = json.dumps({"lanes": ["outside"], "wait": wait}).encode()
    head = (
        f"POST /api/v1/pull HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    try:
        writer.write(head.encode() + body)
        answer = await reader.read()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    status = answer.split(b" ", 2)[1]
    assert status == b"200", answer[:500]
    jobs: list[dict[str, Any]] = json.loads(answer.partition(b"\r\n\r\n")[2])["jobs"]
    return jobs


async def poll_until_found(api: Api) -> list[dict[str, Any]]:
    """As external workers do: poll again and again, as long as allowed."""
    while not (jobs := await poll(api, wait=20)):
        continue
    return jobs


@pytest.mark.every_database
def test_200_pollers_share_few_connections(api: Api) -> None:
    """While they wait, and while each gets one of 200 jobs, the console has a handful of database connections."""
    counted: list[int] = []

    async def count_until(polls: asyncio.Future[Any]) -> None:
        while not polls.done():
            counted.append(await asyncio.to_thread(database_connections, api))

    async def all_poll() -> list[list[dict[str, Any]]]:
        polls = asyncio.gather(*(poll_until_found(api) for _ in range(POLLERS)))
        counting = asyncio.create_task(count_until(polls))
        await asyncio.to_thread(wait_until, lambda: clients(api) >= POLLERS, "all are connected")
        assert not polls.done()
        await asyncio.to_thread(api.installation.enqueue, "resize", "{}", POLLERS, lane="outside")
        found = await polls
        await counting
        return found

    found = asyncio.run(all_poll())

    assert max(counted) <= 8 + 1  # one per thread, and that of /health
    assert (max(counted) > 0) == ("sqlite" not in api.installation.url)
    assert sorted(job["id"] for jobs in found for job in jobs) == sorted(
        row.id for row in api.installation.rows("SELECT id FROM mayfly_jobs")
    )
    assert all(len(jobs) == 1 for jobs in found)


def test_a_poll_ends_after_its_wait(api: Api) -> None:
    """Empty, and not earlier."""
    started = time.monotonic()

    assert api.pull(wait=1.5) == []
    assert 1.4 <= time.monotonic() - started < 40


def test_a_poll_ends_when_a_job_is_due(api: Api) -> None:
    """One that is enqueued during the poll, with a delay."""
    found: list[dict[str, Any]] = []
    poller = threading.Thread(target=lambda: found.extend(api.pull(wait=20)))
    poller.start()

    api.post("/enqueue", {"type": "resize", "lane": "outside", "delay": 1})
    poller.join()

    assert [each["type"] for each in found] == ["resize"]


def test_a_disconnected_poller_gets_no_job(api: Api) -> None:
    """The next poll gets it."""

    async def hang_up() -> None:
        task = asyncio.create_task(poll(api, wait=20))
        await asyncio.to_thread(wait_until, lambda: is_known(api), "the poll waits")
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(hang_up())
    api.installation.enqueue("resize", lane="outside")

    wait_until(lambda: api.pull(wait=2), "the next poll gets the job")
    assert api.installation.rows("SELECT claims FROM mayfly_jobs")[0].claims == 1


def test_sigterm_ends_long_polls(own_api: Api) -> None:
    """With an empty response; exit code 0, no traceback."""
    found: list[list[dict[str, Any]]] = []
    poller = threading.Thread(target=lambda: found.append(own_api.pull(wait=20)))
    poller.start()
    wait_until(lambda: is_known(own_api), "the poll waits")
    started = time.monotonic()

    own_api.process.terminate()
    _out, errors = own_api.process.communicate(timeout=60)
    poller.join()

    assert (found, own_api.process.returncode) == ([[]], 0)
    assert time.monotonic() - started < 15  # of the 20 that the poll would have waited
    assert "Traceback" not in errors
