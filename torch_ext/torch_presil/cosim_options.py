# SPDX-License-Identifier: Apache-2.0
"""What a co-simulation is asked for, and what of it can be refused without device and model."""

from dataclasses import dataclass

from torch_presil import farmed
from torch_presil.estimates import HOW
from torch_presil.inputs import InputSpec
from torch_presil.int8 import calibration, observers

__all__ = ["DTYPES", "MODES", "Options", "check"]

DTYPES = ("bf16", "int8", "fp32")
MODES = ("rtl", "model", "verify", "hybrid")


@dataclass
class Options:
    model: str
    shape: tuple | None = None  # of the only input, in float32
    dtype: str = "bf16"
    chip: str | None = None  # None: PRESIL_CHIP, the chip's own default, or what the transport's server has
    mode: str = "rtl"
    # Processes that run the RTL; with more than one, "rtl" is "verify". 0: the processors. None: those of
    # torch.backends.presil.jobs if that is above 1, else PRESIL_JOBS; without either the processors, where the chip can
    # be had in several processes, else 1.
    jobs: int | None = 1
    most_jobs: int | None = None  # instead of the processors, where jobs is None and there is no PRESIL_JOBS
    layers: str | None = None
    distinct: bool = False  # of layers with the same geometry only the first, each fed its fp32 input
    weights: str | None = None
    trace: str | None = None
    trace_path: str | None = None
    capture: str | None = None  # run this layer alone, and keep its launches as a bundle at capture_path
    capture_path: str | None = None  # without capture: all layers that run alone (layers, distinct)
    seed: int = 0
    forwards: int = 2  # the last one is measured
    quiet: str = "model"  # mode of what is not measured; of a chip without an executor: "rtl"
    check_layers: bool = True  # each layer fed its fp32 input, compared with fp32 (in mode "model": the same bits)
    baseline: bool = True  # time PyTorch fp32 on one CPU thread
    batches: tuple = ()  # also run with each of these as the first dimension, for latency and throughput
    inputs: tuple = ()  # InputSpec each, instead of shape; neither: the factory's, else 1×3×224×224
    config: dict | None = None  # settings of the configuration of a class of transformers
    unseen: str | None = None  # torch.backends.presil.unseen, of mode "hybrid"; None: as it is
    transport: str | None = None  # torch.backends.presil.transport; None: as it is
    farm: str | None = None  # where the RTL runs, as for presil regress (docs/farm.md); jobs: of "local"
    progress: object = None  # callable(stage: str, done: int, of: int)
    announce: object = None  # callable({layer: MACs}), once the layers are known
    # Where int8 loses (docs/int8.md): measured if one of these is given, or `losses`.
    losses: bool = False
    calibrate: str | None = None  # int8.calibration.load(); None: drawn inputs
    evaluate: str | None = None  # likewise, what the noise is measured on; None: int8.analysis.evaluation()
    observer: str = "minmax"  # int8.observers.maker()
    samples: int = calibration.MOST  # inputs of each, at most
    mixed: tuple = ()  # numbers of layers in bf16, those that cost most; the forward that is reported has the first
    zero_layer: str | None = None  # control: this layer's weights are set to zero on the chip
    other_input: bool = False  # control: the chip gets another input

    def alone(self) -> str | None:
        """The pattern of layers that run alone; None: the whole model runs."""
        return self.trace or self.capture or self.layers

    def analysed(self) -> bool:
        """Whether it is measured where int8 loses."""
        return bool(self.losses or self.calibrate or self.evaluate or self.mixed or self.observer != "minmax")

    def specs(self) -> tuple:
        return tuple(self.inputs) or ((InputSpec(tuple(self.shape)),) if self.shape else ())

    def tell(self, stage: str, done: int = 0, of: int = 0) -> None:
        if self.progress:
            self.progress(stage, done, of)


def check(options: Options) -> None:
    """What can be refused without device and model."""
    if options.dtype not in DTYPES or options.mode not in MODES:
        raise ValueError(f"dtype must be one of {DTYPES}, mode one of {MODES}; got {options.dtype!r}, {options.mode!r}")
    if options.farm:
        farmed.check(options)
    if options.jobs not in (None, 1) and (options.jobs < 0 or options.alone() or options.distinct):
        raise ValueError(
            "--jobs is at least 0, and runs whole forwards on several processors: it can't be combined with --layers, "
            "--trace or --capture"
        )
    if options.mode == "hybrid" and (options.alone() or options.distinct or options.batches):
        raise ValueError(
            "mode 'hybrid' runs whole forwards: it can't be combined with --layers, --trace, --capture or --batches"
        )
    if options.unseen not in (None, *HOW) or (options.unseen and options.mode != "hybrid"):
        raise ValueError(
            f"--unseen is one of {HOW}, of mode 'hybrid'; got {options.unseen!r} and mode {options.mode!r}"
        )
    if options.analysed():
        _check_analysis(options)
    if options.batches and options.alone():
        raise ValueError("--batches measures whole forwards: it can't be combined with --layers, --trace or --capture")
    if options.trace and options.capture:
        raise ValueError("--trace and --capture: one at a time (presil-replay --trace makes a waveform of a bundle)")
    if options.trace and options.mode == "model":
        raise ValueError("--trace writes the RTL's waveforms, and mode 'model' has none: use mode 'rtl' or 'verify'")


def _check_analysis(options: Options) -> None:
    observers.maker(options.observer)
    if options.dtype != "int8":
        raise ValueError(
            f"--losses, --calibrate, --evaluate, --observer and --mixed are about int8: expected --dtype int8, found "
            f"{options.dtype}"
        )
    if options.alone() or options.distinct:
        raise ValueError(
            "--losses, --calibrate, --evaluate, --observer and --mixed need the whole network: they can't be combined "
            "with --layers, --trace or --capture"
        )
    if options.samples < 1:
        raise ValueError(f"--samples: expected at least 1, found {options.samples}")
