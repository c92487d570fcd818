"""An engine in one file, like Slurm with its programs: `serve` starts jobs as processes, the others are its clients.

Files in its directory make it fail: `refuse` has the reason, with `lose` submits get no answer, with `hold` jobs stay
in the queue, with `down` it does not answer at all, `ending` has the state of jobs that fail.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SOCKET = "engine.sock"


def serve(directory: Path) -> None:
    jobs: dict[str, dict[str, Any]] = {}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / SOCKET))
        server.listen(64)
        server.settimeout(0.05)
        while True:
            try:
                client, _ = server.accept()
            except TimeoutError:
                client = None
            for job in jobs.values():
                update(directory, job)
            if client is not None:
                with client:
                    answer = respond(directory, jobs, json.loads(client.recv(1 << 20)))
                    client.sendall(json.dumps(answer).encode())


def respond(directory: Path, jobs: dict[str, dict[str, Any]], request: dict[str, Any]) -> Any:
    if request["verb"] == "submit":
        name = request["names"][0]
        job = {"id": f"{100 + len(jobs)}", "name": name, "command": request["names"][1], "state": "PENDING"}
        jobs[f"{name} {job['id']}"] = job
        update(directory, job)
        return job["id"]
    if request["verb"] == "cancel":
        for job in jobs.values():
            if job["id"] in request["names"] and job["state"] in ("PENDING", "RUNNING"):
                if job["state"] == "RUNNING":
                    os.killpg(job["process"].pid, signal.SIGTERM)
                job["state"] = "CANCELLED"
        return None
    shown = [each for each in jobs.values() if not request["names"] or each["name"] in request["names"]]
    return [f"{each['name']} {each['id']} {each['state']}" for each in shown]


def update(directory: Path, job: dict[str, Any]) -> None:
    if job["state"] == "PENDING" and not (directory / "hold").exists():
        with (directory / f"{job['name']}.out").open("wb") as out:
            job["process"] = subprocess.Popen(
                ["/bin/sh", "-c", job["command"]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={"PATH": os.environ["PATH"]},
            )
        job["state"] = "RUNNING"
    elif job["state"] == "RUNNING" and (code := job["process"].poll()) is not None:
        ending = directory / "ending"
        failed = ending.read_text() if ending.exists() else "FAILED"
        job["state"] = "COMPLETED" if code == 0 else failed


def request(directory: Path, verb: str, names: list[str]) -> Any:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(directory / SOCKET))
        client.sendall(json.dumps({"verb": verb, "names": names}).encode())
        return json.loads(client.makefile().read())


def main(directory: Path, verb: str, names: list[str]) -> int:
    if verb == "serve":
        serve(directory)
    if verb == "output":
        print((directory / f"{names[0]}.out").read_text(errors="replace"), end="")
        return 0
    refusal = directory / "refuse"
    if verb == "submit" and refusal.exists():
        print(refusal.read_text(), file=sys.stderr)
        return 1
    if (directory / "down").exists():
        time.sleep(3600)
    answer = request(directory, verb, names)
    if verb == "submit" and (directory / "lose").exists():
        time.sleep(3600)
    print(*answer if isinstance(answer, list) else [answer], sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
