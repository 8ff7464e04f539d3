# SPDX-License-Identifier: Apache-2.0
"""What is run: each case on each chip, build, memory and stress, with each of its seeds."""

import hashlib
import secrets
import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from .exit_codes import UsageError
from .suite import PACKAGED, SOURCE_ROOT, Case

REGRESSION_SEED = 1
PROGRAM = "./presil" if (SOURCE_ROOT / "presil").is_file() else "presil"
STRESS_KEY = "pressure"  # of the memory model: the profile of all channels (docs/simulation.md)


def case_seed(run_seed: int, name: str, index: int = 0) -> int:
    """32 bits, of the run's seed, the case's full name and the number of the reseed; the same on every machine."""
    text = f"{run_seed}:{name}#{index}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "little")


def fresh_seed() -> int:
    return secrets.randbits(32)


@dataclass
class Job:
    """One run of one case. Everything that running it needs is in it, so that a plan on disk is enough to go on."""

    suite: str
    case_name: str
    kind: str
    folder: str
    parameters: dict
    chip: str
    build: str
    memory: str = ""
    stress: str = ""
    index: int = 0
    seed: int = 0
    library: str = ""
    tags: list = field(default_factory=list)
    testpoints: list = field(default_factory=list)
    needs: list = field(default_factory=list)
    timeout_cycles: int = 0
    timeout_seconds: float = 600
    threads: int = 1
    env: dict = field(default_factory=dict)
    template: list = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.suite}/{self.case_name}"

    def _key(self, *facts: str) -> str:
        return f"{self.name}[{','.join(filter(None, facts))}]#{self.index}"

    @property
    def key(self) -> str:
        """Its name in a run."""
        return self._key(self.chip, self.build, self.memory, self.stress)

    @property
    def cycles_key(self) -> str:
        """Its name in a baseline: every build takes the same cycles."""
        return self._key(self.chip, self.memory, self.stress)

    @property
    def memory_model(self) -> str:
        """As PRESIL_MEMORY_MODEL wants it. `heavy`: on all channels; `aw=starved+interleave=1`: as it is."""
        parts = [self.memory.replace("+", ",")] if self.memory else []
        for part in filter(None, self.stress.split("+")):
            parts.append(part if "=" in part else f"{STRESS_KEY}={part}")
        return ",".join(parts)

    def again(self, versions: dict, against: str = "") -> str:
        """The line that repeats it: as the same run of the case, so that the baseline of it is the same. against: what
        its cycles are compared with, if not with the suite's baseline."""
        words = [PROGRAM, "regress", self.name, "--case-seed", str(self.seed)]
        words += ["--case-index", str(self.index)] if self.index else []
        if Path(self.folder) not in (SOURCE_ROOT / "tests" / "regress", PACKAGED):
            words += ["--suites", self.folder]
        words += ["--library", self.library] if self.library else []
        words += ["--mode", "hybrid"] if self.kind == "cosim" and self.parameters["mode"] == "hybrid" else []
        words += ["--chip", self.chip, "--build", self.build]
        words += ["--memory", self.memory or "default", "--stress", self.stress or "none"]
        words += ["--against", against] if against else []
        known = ", ".join(f"{name} {value}" for name, value in versions.items() if value)
        return f"{shlex.join(words)}  # {known}" if known else shlex.join(words)

    def as_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> "Job":
        names = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in names})


@dataclass
class Choice:
    """What the command line says of chips, builds, memories, stress and seeds; empty: what each case says."""

    chips: list = field(default_factory=list)
    builds: list = field(default_factory=list)
    memory: list = field(default_factory=list)
    stress: list = field(default_factory=list)
    library: str = ""
    run_seed: int = REGRESSION_SEED
    reseed: int = 0  # 0: what each case says
    case_seed: int | None = None
    soak: bool = False
    default_chip: str = ""  # where neither command line nor case name one
    hybrid: bool = False
    case_index: int = 0  # with case_seed: which run of the case it is


def library_facts(path: str) -> tuple[str, str]:
    """(chip, build) that the name of a simulator library tells: libpresil_sim_CHIP_BUILD.so."""
    stem = Path(path).name.removesuffix(".so").removeprefix("libpresil_sim_")
    chip, _, build = stem.rpartition("_")
    return (chip, build) if Path(path).name.startswith("libpresil_sim_") and chip else ("", "")


def _plain(values: list, standard: str) -> list:
    return ["" if value == standard else value for value in values]


def _seeds(case: Case, choice: Choice) -> list[tuple[int, int]]:
    """(index, seed): fixed seeds of the case first, in regression mode; then hashes."""
    if choice.case_seed is not None:
        return [(choice.case_index, choice.case_seed)]
    fixed = [] if choice.soak else case.common.get("seeds", [])
    count = choice.reseed or len(fixed) or case.common["reseed"]
    drawn = [case_seed(choice.run_seed, case.full_name, k) for k in range(count)]
    return list(enumerate([*fixed[:count], *drawn[len(fixed) :]]))


def _parameters(case: Case, choice: Choice, build: str) -> dict:
    """In mode hybrid a whole model's launches may be known from earlier runs; coverage needs the RTL."""
    asked = case.parameters
    whole = case.kind == "cosim" and asked["mode"] == "verify" and not asked["layers"] and not asked["distinct"]
    return {**asked, "mode": "hybrid"} if choice.hybrid and whole and build != "coverage" else asked


def expand(cases: list[Case], choice: Choice) -> list[Job]:
    jobs, seen = [], set()
    for case in cases:
        for job in _of_case(case, choice):
            if job.key not in seen:
                seen.add(job.key)
                jobs.append(job)
    return jobs


def _of_case(case: Case, choice: Choice):
    common = case.common
    chip, build = library_facts(choice.library) if choice.library else ("", "")
    chips = choice.chips or ([chip] if chip else []) or common.get("chips") or [choice.default_chip]
    builds = choice.builds or ([build] if build else []) or common.get("builds") or ["fast"]
    memories = _plain(choice.memory or common.get("memory") or ["default"], "default")
    stresses = _plain(choice.stress or common.get("stress") or ["none"], "none")
    if choice.library and (len(chips) > 1 or len(builds) > 1):
        raise UsageError("--library is one chip of one build: name no more than one --chip and --build with it")
    kept = {key: common[key] for key in ("timeout_cycles", "timeout_seconds", "threads")}
    kept |= {key: common.get(key, []) for key in ("tags", "testpoints", "needs")} | {"env": common.get("env", {})}
    for chip in chips:
        for build in builds:
            for memory in memories:
                for stress in stresses:
                    for index, seed in _seeds(case, choice):
                        yield Job(
                            case.suite,
                            case.name,
                            case.kind,
                            case.folder,
                            _parameters(case, choice, build),
                            chip,
                            build,
                            memory,
                            stress,
                            index,
                            seed,
                            choice.library,
                            template=case.template,
                            **kept,
                        )
