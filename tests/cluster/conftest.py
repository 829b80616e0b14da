"""A real Slurm on this machine: one controller and two nodes of two cores, on loopback."""

import contextlib
import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
CONFIG = """
ClusterName=eqgrid
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
SlurmdTimeout=30
KillWait=120
NodeName={host} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=4000
NodeName=other NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=4000
PartitionName=low Nodes={host},other Default=YES PriorityTier=1
PartitionName=high Nodes={host},other PriorityTier=10
"""


def free_ports(number: int) -> list[int]:
    """Ports that nobody uses, below those that the system gives to connections in the meantime."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < number:
            port = random.SystemRandom().randrange(20_000, 32_000)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("", port)))
                found.append(port)
    return found


class Slurm:
    """The daemons, and what tests do with them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.nodes = (socket.gethostname(), "other")
        self.env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}

    def start(self) -> None:
        """**Raises:** `CalledProcessError` or `TimeoutError` if a daemon does not start."""
        (self.folder / "state").mkdir()
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        ports = free_ports(3)
        names = {"folder": self.folder, "host": self.nodes[0], "user": getpass.getuser()}
        (self.folder / "slurm.conf").write_text(CONFIG.format(ports=ports, **names))
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log"}
        files = [f"--{flag}={self.folder}/munge.{end}" for flag, end in files.items()]
        self.call("munged", "--force", f"--seed-file={self.folder}/munge.seed", *files)
        self.call("slurmctld", "-f", self.folder / "slurm.conf")
        for node in self.nodes:
            self.start_node(node)
        self.until(lambda: self.call("sinfo", "-h", "-o", "%T %D").strip() == "idle 2")

    def start_node(self, node: str) -> None:
        self.call("slurmd", "-N", node, "-f", self.folder / "slurm.conf")

    def kill_node(self, node: str) -> None:
        """Ends the daemon of a node and its jobs at once, as a loss of power does."""
        psutil.Process(int((self.folder / f"{node}.pid").read_text())).kill()
        mine = {"SLURM_CONF": self.env["SLURM_CONF"], "SLURMD_NODENAME": node}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if mine.items() <= process.environ().items():
                    for one in (process.parent(), process):  # a parent may be Slurm's own process
                        if one is not None:
                            one.kill()

    def stop(self) -> None:
        """Cancels all jobs, and ends the daemons by their files with process numbers."""
        subprocess.run(["scancel", "--me"], env=self.env, check=False)
        time.sleep(2)
        for path in self.folder.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGTERM)

    def call(self, *words: object) -> str:
        """Runs a command. **Returns:** its output."""
        done = subprocess.run(
            [*map(str, words)], env=self.env, check=True, timeout=300, stdout=subprocess.PIPE
        )
        return done.stdout.decode()

    def start_requeued_jobs(self) -> None:
        """Starts jobs now that were queued again, which Slurm lets wait for two minutes."""
        for job in self.call("squeue", "-h", "-r", "-t", "PD", "-o", "%i %r").splitlines():
            if job.endswith("BeginTime"):
                self.call("scontrol", "update", f"jobid={job.split()[0]}", "starttime=now")

    def until(self, condition: Callable[[], bool], seconds: float = 600) -> None:
        """Waits until a condition holds, and starts jobs that were queued again."""
        end = time.time() + seconds
        while not condition():
            if time.time() > end:
                raise TimeoutError
            self.start_requeued_jobs()
            time.sleep(0.5)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory) -> Iterator[Slurm]:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"Slurm is not installed (no {', '.join(missing)})")
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    except (subprocess.SubprocessError, TimeoutError) as error:
        pytest.skip(f"Slurm does not start: {error}")
    finally:
        cluster.stop()
