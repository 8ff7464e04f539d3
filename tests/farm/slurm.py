# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one machine, without systemd: its own munged, slurmctld and slurmd, all of it in one folder."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
CONF = """\
ClusterName=presil
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


class NoSlurm(Exception):
    """It is not installed, or may not run. Where it is and may, all that goes wrong is a failure."""


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Slurm:
    """environment: what a client of it has in its own."""

    def __init__(self, folder: Path):
        lacking = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
        if lacking:
            raise NoSlurm(f"needs {' '.join(lacking)} (Debian: slurm-wlm, munge)")
        if os.getuid() != 0:
            raise NoSlurm("needs root: slurmd starts jobs as their users")
        self.folder, self.started = folder, []
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)
        facts = {"host": socket.gethostname().split(".")[0], "user": "root", "folder": folder, "ports": free_ports(2)}
        (folder / "slurm.conf").write_text(CONF.format(**facts))
        # v2 wants systemd, and v1 asks for nothing that is not used: so it runs in a plain chroot, too.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATH}
        try:
            self._start()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        words = [f"--{name}={self.folder}/munge.{name.split('-')[0]}" for name in ("pid-file", "log-file", "seed-file")]
        words += [f"--key-file={key}", f"--socket={self.folder}/munge.socket", "--num-threads=2"]
        self._begin("munged", "--foreground", "--force", *words)
        self._until(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._begin("slurmctld", "-D")
        self._begin("slurmd", "-D")
        self._until(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"), "a node that is idle")

    def _begin(self, program: str, *words: str) -> None:
        with (self.folder / f"{program}.out").open("wb") as out:
            environment = {**os.environ, **self.environment}
            path = shutil.which(program, path=PATH)
            begun = subprocess.Popen(
                [path, *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.started.append((program, begun))

    def _until(self, condition, what: str) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            for program, process in self.started:
                if process.poll() is not None:
                    raise RuntimeError(f"{program} ends at once: {self.said(program)}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} did not come: {self.said('slurmctld')} {self.said('slurmd')}")
            time.sleep(0.2)

    def said(self, program: str) -> str:
        return (self.folder / f"{program}.out").read_text(errors="replace")[-600:].strip()

    def ask(self, *words: str) -> str:
        environment = {**os.environ, **self.environment}
        path = shutil.which(words[0], path=PATH)
        done = subprocess.run([path, *words[1:]], env=environment, capture_output=True, text=True, timeout=30)
        return done.stdout

    def end(self) -> None:
        for _, process in reversed(self.started):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


if __name__ == "__main__":
    import sys
    import tempfile

    slurm = Slurm(Path(tempfile.mkdtemp(prefix="presil-slurm-")))
    print(slurm.ask("sinfo"), " ".join(f"{k}={v}" for k, v in slurm.environment.items() if k != "PATH"))
    try:
        sys.stdin.read()
    finally:
        slurm.end()
