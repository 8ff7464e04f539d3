# SPDX-License-Identifier: Apache-2.0
"""From the values that a tensor had in calibration to its scale and zero point: torch.ao's observers, and two rules of
clipping on the histogram of one of them."""

import warnings

import torch
from torch.ao.quantization.observer import HistogramObserver, MinMaxObserver, UniformQuantizationObserverBase

from torch_presil.int8.parameters import SMALLEST_SCALE, QuantizationParameters

__all__ = ["NAMES", "maker"]

NAMES = ("minmax", "histogram", "percentile", "mse")
PERCENT = 99.99


class MinMax:
    """The least and the largest value seen."""

    def __init__(self):
        self.observer = MinMaxObserver(dtype=torch.quint8)

    def note(self, values: torch.Tensor) -> None:
        self.observer(values)

    def parameters(self) -> QuantizationParameters:
        return QuantizationParameters.from_range(float(self.observer.min_val), float(self.observer.max_val))


class OfTorch:
    """What an observer of torch.ao for quint8 decides by itself."""

    def __init__(self, observer: UniformQuantizationObserverBase):
        if (observer.quant_min, observer.quant_max, observer.qscheme) != (0, 255, torch.per_tensor_affine):
            raise ValueError(
                f"{type(observer).__name__}: expected an observer of dtype torch.quint8 and qscheme per_tensor_affine, "
                f"codes 0 to 255, found {observer.qscheme} with codes {observer.quant_min} to {observer.quant_max}"
            )
        self.observer = observer

    def note(self, values: torch.Tensor) -> None:
        self.observer(values)

    def parameters(self) -> QuantizationParameters:
        scale, zero_point = self.observer.calculate_qparams()
        return QuantizationParameters(float(scale), int(zero_point) - 128)


class Clipping:
    """2048 bins by torch.ao's HistogramObserver, which stretches them as the range grows; zeros, which every range has
    a code for, are counted by themselves."""

    def __init__(self):
        self.observer, self.zeros = HistogramObserver(dtype=torch.quint8), 0

    def note(self, values: torch.Tensor) -> None:
        self.observer(values)
        self.zeros += int((values == 0).sum())

    def parameters(self) -> QuantizationParameters:
        counts = self.observer.histogram.double()
        edges = torch.linspace(float(self.observer.min_val), float(self.observer.max_val), len(counts) + 1).double()
        return QuantizationParameters.from_range(*self.range(counts, edges))

    def range(self, counts: torch.Tensor, edges: torch.Tensor) -> tuple[float, float]:
        """counts: (bins,); edges: (bins + 1,), ascending. The range that is kept."""
        raise NotImplementedError


class Percentile(Clipping):
    """Keeps `percent` of the values, and cuts as many below as above (Wu et al., Integer Quantization for Deep Learning
    Inference, arXiv:2004.09602, "Calibration"; theirs is of absolute values, for symmetric ranges)."""

    def __init__(self, percent: float = PERCENT):
        super().__init__()
        self.percent = percent

    def range(self, counts, edges):
        cumulated = torch.cat([torch.zeros(1, dtype=torch.double), counts.cumsum(0)]) / counts.sum()
        cut = (1.0 - self.percent / 100.0) / 2
        return _where(cumulated, edges, cut), _where(cumulated, edges, 1.0 - cut)


def _where(cumulated: torch.Tensor, edges: torch.Tensor, share: float) -> float:
    """The value below which `share` of all lies; inside a bin they are taken to be even."""
    i = int(torch.searchsorted(cumulated, share).clamp(1, len(edges) - 1))
    low, high = float(cumulated[i - 1]), float(cumulated[i])
    part = (share - low) / (high - low) if high > low else 1.0
    return float(edges[i - 1] + part * (edges[i] - edges[i - 1]))


class MeanSquaredError(Clipping):
    """The range [a, b] with the least  Σ_{x<a} (x−a)² + Σ_{x>b} (x−b)² + N·Δ²/12,  where N values that are not zero
    lie inside and Δ = (b−a)/255 (Banner et al., Post-training 4-bit quantization, arXiv:1810.05723, on the
    histogram instead of a fitted distribution). a and b: every edge of a bin."""

    def range(self, counts, edges):
        zero = torch.zeros(1, dtype=torch.double)
        lows = torch.cat([edges[edges < 0], zero])
        highs = torch.cat([zero, edges[edges > 0]])
        middles = (edges[1:] + edges[:-1]) / 2
        cut_below, below = _clipped(counts, middles, lows)
        cut_above, above = _clipped(counts.flip(0), -middles.flip(0), -highs)
        inside = (counts.sum() - self.zeros - below[:, None] - above[None, :]).clamp_min(0.0)
        steps = (highs[None, :] - lows[:, None]) / 255.0
        errors = cut_below[:, None] + cut_above[None, :] + inside * steps**2 / 12.0
        best = int(errors.argmin())
        return float(lows[best // len(highs)]), float(highs[best % len(highs)])


def _clipped(counts, middles, limits) -> tuple[torch.Tensor, torch.Tensor]:
    """For each limit: Σ n·(limit − x)² over the bins whose middle x is below it, and how many values those are."""
    moments = [torch.cat([torch.zeros(1, dtype=torch.double), (counts * middles**p).cumsum(0)]) for p in range(3)]
    n, x, squares = (m[torch.searchsorted(middles, limits)] for m in moments)
    return (n * limits**2 - 2 * limits * x + squares).clamp_min(0.0), n


def maker(observer):
    """A function that makes an observer for one tensor: note(values) any number of times, then parameters(). observer:
    one of NAMES, "percentile:PERCENT", or a callable that returns one of torch.ao. ValueError: neither."""
    if callable(observer):
        return lambda: OfTorch(observer())
    name, colon, number = str(observer).partition(":")
    if name == "percentile" and colon:
        percent = _percent(number)
        return lambda: Percentile(percent)
    if colon or name not in NAMES:
        raise ValueError(f"observer {observer!r}: expected one of {', '.join(NAMES)}, or percentile:PERCENT")
    kinds = {"minmax": MinMax, "histogram": _histogram, "percentile": Percentile, "mse": MeanSquaredError}
    return kinds[name]


def _percent(text: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if not 50.0 < percent <= 100.0:
        raise ValueError(f"observer percentile:{text}: expected a number above 50, at most 100, such as 99.99")
    return percent


def _histogram() -> OfTorch:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return OfTorch(HistogramObserver(dtype=torch.quint8, eps=SMALLEST_SCALE))
