# SPDX-License-Identifier: Apache-2.0
"""torch.backends.presil: the settings."""

import contextlib
import types

import torch

from torch_presil import _C


class _Settings(types.ModuleType):
    """mode, jobs, store, store_sample, store_seed, unseen, chip, build, transport, memory_model,
    memory_model_seed, watchdog_cycles, fp32_precision, strict, deterministic, launch_blocking, affinity.

    An unknown name raises, so that a typing error can't pass.
    """

    _NAMES = (
        "mode",
        "jobs",
        "store",
        "store_sample",
        "store_seed",
        "unseen",
        "chip",
        "build",
        "transport",
        "memory_model",
        "memory_model_seed",
        "watchdog_cycles",
        "fp32_precision",
        "strict",
        "deterministic",
        "launch_blocking",
        "affinity",
    )

    @property
    def mode(self) -> str:
        """ "rtl" (default), "model" (the C twin: same bits, no clock), "verify" (both, compared byte for byte) or
        "hybrid" (the twin, with the cycles that the RTL took for the same commands before; what is not known yet runs
        as in "verify": docs/hybrid.md). Can change whenever the device is idle."""
        return _C.get_mode()

    @mode.setter
    def mode(self, value: str) -> None:
        _C.set_mode(value)

    @property
    def jobs(self) -> int:
        """Processes that run the RTL in modes "rtl" and "verify"; 1 (default): this one alone. 0 becomes the number
        of processors that this process may use (PRESIL_JOBS). With more than one the twin answers PyTorch at once, and
        each launch is compared with the RTL when a process has run it: torch.presil.synchronize() waits for that, and
        raises what differed (docs/jobs.md). Bits, cycles and counters are those of mode "verify" with 1."""
        return _C.get_jobs()

    @jobs.setter
    def jobs(self, value: int) -> None:
        _C.set_jobs(value)

    @property
    def store(self) -> str:
        """Path of the timing store of mode "hybrid"; "" (default): PRESIL_STORE, else presil/timings.sqlite in
        XDG_CACHE_HOME or ~/.cache (docs/hybrid.md)."""
        return _C.get_store()

    @store.setter
    def store(self, value: str) -> None:
        _C.set_store(str(value), _C.get_store_sample(), _C.get_store_seed())

    @property
    def store_sample(self) -> float:
        """Which share of the launches that mode "hybrid" knows runs on the RTL all the same, to see that they take the
        cycles that were kept: 0 to 1, 0.02 by default (PRESIL_STORE_SAMPLE)."""
        return _C.get_store_sample()

    @store_sample.setter
    def store_sample(self, value: float) -> None:
        _C.set_store(_C.get_store(), value, _C.get_store_seed())

    @property
    def store_seed(self) -> int:
        """Of the choice of that sample; another one in each process unless it is set (PRESIL_STORE_SEED)."""
        return _C.get_store_seed()

    @store_seed.setter
    def store_seed(self, value: int) -> None:
        _C.set_store(_C.get_store(), _C.get_store_sample(), value)

    @property
    def unseen(self) -> str:
        """What mode "hybrid" does with launches that the store doesn't know: "simulate" (default), or "estimate" their
        cycles from the launches most like them, with an error bound; what can't be estimated is simulated
        (PRESIL_UNSEEN; docs/hybrid.md). An estimate is not kept."""
        return _C.get_unseen()

    @unseen.setter
    def unseen(self, value: str) -> None:
        _C.set_unseen(str(value))

    @property
    def chip(self) -> str:
        """Configuration of the chip ("base", "tiny", ...; rtl/configs.json). Before the first use of a device."""
        return _C.get_chip()

    @chip.setter
    def chip(self, value: str) -> None:
        _C.set_chip(value)

    @property
    def build(self) -> str:
        """Build of the simulator library: "fast", "check" or "trace". Before the first use of a device."""
        return _C.get_build()

    @build.setter
    def build(self, value: str) -> None:
        _C.set_build(value)

    @property
    def transport(self) -> str:
        """ "inproc" (default): the simulator runs in this process. "socket:PATH[,copy][,timeout=SECONDS]": in another
        one, such as presil-serve or presil-vp, which also says
        which chip it is; several devices: one entry each, separated by ";" (PRESIL_TRANSPORT;
        docs/transport-protocol.md). Before the first use of a device."""
        return _C.get_transport()

    @transport.setter
    def transport(self, value: str) -> None:
        _C.set_transport(value)

    @property
    def memory_model(self) -> str:
        """ "" (default: 100 cycles, one bus word a cycle), "ideal", a DRAM such as "ddr4-3200" (docs/dram.md), or
        parameters as in docs/simulation.md."""
        return _C.get_memory_model()

    @memory_model.setter
    def memory_model(self, value: str) -> None:
        _C.set_memory_model(value, _C.get_memory_model_seed())

    @property
    def memory_model_seed(self) -> int:
        """Of the memory model's random state; 0 by default."""
        return _C.get_memory_model_seed()

    @memory_model_seed.setter
    def memory_model_seed(self, value: int) -> None:
        _C.set_memory_model(_C.get_memory_model(), value)

    @property
    def watchdog_cycles(self) -> int:
        """Cycles of a silent bus after which a launch whose engines do nothing either is a hang (EHUNG). 0: as
        PRESIL_WATCHDOG says, else 200000. A memory model slower than that needs more."""
        return _C.get_watchdog_cycles()

    @watchdog_cycles.setter
    def watchdog_cycles(self, value: int) -> None:
        _C.set_watchdog_cycles(value)

    @property
    def fp32_precision(self) -> str:
        """ "ieee": float32 tensors compute at fp32 accuracy (three bf16 terms, six passes); "bf16": one term; "none"
        (default): as PyTorch's own settings say.

        Those are torch.backends.fp32_precision, torch.backends.mkldnn.{matmul,conv}.fp32_precision and
        torch.set_float32_matmul_precision, read as for the CPU:
        "bf16" and "medium" give one term; "tf32" and "high" give full accuracy, because the chip has no tf32 and no
        sum of two bfloat16.
        """
        return _C.get_fp32_precision()

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        _C.set_fp32_precision(value)

    @property
    def strict(self) -> bool:
        """True: an operator that would run on the host raises instead (PRESIL_STRICT=1)."""
        return _C.get_strict()

    @strict.setter
    def strict(self, value: bool) -> None:
        _C.set_strict(bool(value))

    @property
    def deterministic(self) -> bool:
        """True, always: the chip and the twin give the same bits and cycles every time.
        torch.use_deterministic_algorithms acts on operators of the host as on the CPU."""
        return True

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        if not value:
            raise ValueError(
                "torch.backends.presil.deterministic is always True: there is no faster way that is not deterministic"
            )

    @property
    def launch_blocking(self) -> bool:
        """True: every launch is waited for, so that its error is raised on the line that made it
        (PRESIL_LAUNCH_BLOCKING=1)."""
        return _C.get_launch_blocking()

    @launch_blocking.setter
    def launch_blocking(self, value: bool) -> None:
        _C.set_launch_blocking(bool(value))

    @property
    def affinity(self) -> str:
        """CPUs of the devices' workers, such as "2,4-7" (PRESIL_AFFINITY); "": any. While set, launches run on the
        workers only."""
        return _C.get_affinity()

    @affinity.setter
    def affinity(self, value: str) -> None:
        _C.set_affinity(value)

    @property
    def threads(self) -> int:
        """Of the twin and of operators on the host: torch.set_num_threads."""
        return torch.get_num_threads()

    def __setattr__(self, name, value):
        if not name.startswith("_") and name not in self._NAMES:
            raise AttributeError(f"torch.backends.presil has no setting {name!r}; it has {', '.join(self._NAMES)}")
        super().__setattr__(name, value)

    @contextlib.contextmanager
    def flags(self, **values):
        """Settings inside a `with`, restored afterwards, also those that were set before another was refused."""
        with contextlib.ExitStack() as restore:  # all of them, also if one raises what a launch failed with
            for name in values:
                restore.callback(setattr, self, name, getattr(self, name))
            for name, value in values.items():
                setattr(self, name, value)
            yield self


settings = _Settings("torch.backends.presil", __doc__)
