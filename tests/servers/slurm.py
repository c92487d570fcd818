"""A private Slurm cluster on the loopback: munge, one controller, three nodes."""

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.servers.private import READY_SECONDS, await_dead, free_port
from tests.servers.server import DidNotStart, Unavailable

NODES = ("n1", "n2", "n3")
PATHS = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={home}/munge.sock
CryptoType=crypto/munge
SlurmctldPort={port}
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool.%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
InactiveLimit=0
MinJobAge=300
KillWait=2
MessageTimeout=30
GetEnvTimeout=60
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=NO
"""


class Slurm:
    """Each node takes two jobs at a time. Its processes belong to the user of the tests."""

    package = "slurm-wlm munge"

    def __init__(self) -> None:
        if not self.is_installed():
            raise Unavailable(f"No Slurm is installed: `apt-get install {self.package}` brings it.")
        self.home = Path(tempfile.mkdtemp(prefix="mayfly-slurm-"))
        self.environment = {"PATH": PATHS, "HOME": str(self.home), "SLURM_CONF": str(self.home / "slurm.conf")}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def is_installed(cls) -> bool:
        return all(shutil.which(each, path=PATHS) for each in PROGRAMS)

    def start(self) -> None:
        try:
            self._configure()
            munge = {name: self.home / f"munge.{name}" for name in ("key", "pid", "log", "seed")}
            files = [f"--{name}-file={path}" for name, path in munge.items()]
            self._launch("munged", "--force", "--foreground", f"--socket={self.home}/munge.sock", *files)
            self._await((self.home / "munge.sock").exists, "munged")
            self.start_controller()
            for node in NODES:
                self.start_node(node)
            self._await(lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "3", "its nodes")
        except BaseException:
            self.remove()
            raise

    def start_controller(self) -> None:
        self._launch("slurmctld", "-D")
        self._await(lambda: "UP" in self.ask("scontrol", "ping"), "slurmctld")

    def start_node(self, node: str) -> None:
        self._launch("slurmd", "-D", "-N", node, name=node)

    def kill(self, name: str) -> None:
        """`slurmctld`, or a node: first what would report the end of its jobs, then their processes."""
        process = self._processes.pop(name)
        family = [psutil.Process(process.pid)]
        if name in NODES:
            jobs = [each for each in psutil.process_iter() if self._is_of_node(each, name)]
            parents = [parent for each in jobs if (parent := each.parent()) is not None]
            family += [each for each in parents if each.name().startswith("slurmstepd")]
            family += [child for each in family for child in each.children(recursive=True)] + jobs
        for each in family:
            if each.is_running():
                each.kill()
        process.wait()
        await_dead(family)

    def _is_of_node(self, process: psutil.Process, node: str) -> bool:
        try:
            return process.environ().get("SLURMD_NODENAME") == node and "SLURM_JOB_ID" in process.environ()
        except psutil.Error:
            return False

    def ask(self, *command: str) -> str:
        """What a program of Slurm prints; nothing if it fails."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout

    def remove(self) -> None:
        """Also the processes of its jobs, which are no children of its daemons, and what these have just forked."""
        while family := [each for each in psutil.process_iter() if self._is_ours(each)]:
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            await_dead(family)
        for process in self._processes.values():
            process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def _is_ours(self, process: psutil.Process) -> bool:
        """slurmstepd writes its title over the start of its environment, where psutil stops reading."""
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            return False
        return os.fsencode(f"SLURM_CONF={self.environment['SLURM_CONF']}\0") in environment

    def _configure(self) -> None:
        host = socket.gethostname().partition(".")[0]
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=2 RealMemory=500"
            for node in NODES
        )
        user, port = getpass.getuser(), free_port()
        values: Mapping[str, object] = {"host": host, "user": user, "home": self.home, "port": port}
        (self.home / "state").mkdir()
        (self.home / "slurm.conf").write_text(CONFIGURATION.format(**values, nodes=nodes))
        key = self.home / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)

    def _launch(self, program: str, *arguments: str, name: str | None = None) -> None:
        path = shutil.which(program, path=PATHS)
        assert path is not None
        command: Sequence[str] = [path, *arguments]
        with (self.home / f"{name or program}.out").open("ab") as log:
            self._processes[name or program] = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _await(self, is_ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready():
            if time.monotonic() > deadline:
                logs = "\n".join(each.read_text(errors="replace")[-1000:] for each in self.home.glob("*.out"))
                raise DidNotStart(f"{what} did not start: {logs}")
            time.sleep(0.05)
