# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md: the table of operators, and for each operator of PyTorch's own database (OpInfo) where one
sample of each type ran and how exact it was."""

import itertools
import sys
import textwrap
import time
import warnings

import torch
from torch.utils._pytree import tree_flatten, tree_map

from torch_presil import operators

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int64": torch.int64,
    "bool": torch.bool,
}
HEADINGS = {
    "chip": "On the chip",
    "memory": "Memory and views",
    "composite": "Made of other operators",
    "fallback": "On the host",
    "refused": "Refused",
}


def _moved(value):
    if isinstance(value, torch.Tensor):
        return value.detach().to("presil")
    if isinstance(value, torch.device) or value == "cpu" and isinstance(value, str):
        return torch.device("presil")
    return torch.Generator("presil").manual_seed(value.initial_seed()) if isinstance(value, torch.Generator) else value


def _same(got, expected) -> bool:
    if not isinstance(expected, torch.Tensor):
        return got == expected or got != got
    got = got.cpu()
    return (
        got.dtype == expected.dtype
        and got.shape == expected.shape
        and bool(((got == expected) | ((got != got) & (expected != expected))).all())
    )


def _measure_one(entry, dtype) -> str:
    """ "chip", "chip+host", "host" (bits of the CPU), "host~" (other bits: random, or memory that nobody wrote),
    "error TYPE", "none" (the CPU has no such sample either)."""
    samples = list(itertools.islice(entry.sample_inputs("cpu", dtype, requires_grad=False), 3))
    samples.sort(
        key=lambda s: not any(isinstance(t, torch.Tensor) and t.numel() > 1 for t in tree_flatten((s.input, s.args))[0])
    )
    sample = samples[0]
    arguments = tree_map(_moved, (sample.input, sample.args, sample.kwargs))
    try:
        torch.manual_seed(0)
        expected = entry(sample.input, *sample.args, **sample.kwargs)
    except Exception:  # whatever it is: nothing to compare with
        return "none"
    torch.presil.reset_host_operators()
    with torch.presil.reports() as reports:
        try:
            torch.manual_seed(0)
            got = entry(arguments[0], *arguments[1], **arguments[2])
            launches = len(reports.take())
        except Exception as error:  # is what the page reports
            return f"error {type(error).__name__}"
    if launches:
        return "chip+host" if torch.presil.host_operators() else "chip"
    flat = zip(tree_flatten(got)[0], tree_flatten(expected)[0], strict=True)
    return "host" if all(_same(g, e) for g, e in flat) else "host~"


def measure(progress=sys.stderr) -> dict:
    """Entry -> dtype -> what _measure_one says, over the dtypes that the entry declares on the CPU. Needs PyTorch's
    test dependencies (scipy, expecttest)."""
    from torch.testing._internal.common_methods_invocations import op_db

    found, last = {}, time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for done, entry in enumerate(op_db):
            name = entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")
            declared = entry.supported_dtypes("cpu")
            results = {label: _measure_one(entry, dtype) for label, dtype in DTYPES.items() if dtype in declared}
            if results:
                found[name] = results
            if time.monotonic() - last > 2:
                last = time.monotonic()
                print(f"  {done} of {len(op_db)}: {name}", file=progress, flush=True)
    return found


def page(lines: list[str]) -> str:
    """Lines as they stand in the page: text is wrapped, tables are not."""
    wrapped = []
    for line in lines:
        whole = not line or line.startswith(("|", "<", "#"))
        wrapped += [line] if whole else textwrap.wrap(line, 110, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrapped)


def table_part() -> str:
    """The page's first part, from operators.toml alone."""
    entries = list(operators.table().values())
    count = {kind: sum(o.kind == kind and o.required for o in entries) for kind in operators.KINDS}
    lines = [
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        "<!-- Made by: python -m torch_presil.operators --write docs/operators.md -->",
        "# Operators",
        "",
        f"PyTorch {torch.__version__.split('+')[0]} requires {sum(count.values())} operators of a device "
        f"(dispatched, without a kernel that serves every device). Of these, "
        f"{count['chip']} compute on the chip, {count['memory']} are work on memory and views, "
        f"{count['composite']} are made of other operators, {count['fallback']} run on the CPU's kernel over "
        f"the mapped "
        f"memory, and {count['refused']} are refused with a text. Everything else in PyTorch is composed of them. "
        f"`python -m torch_presil.operators NAME` answers for one; `torch.presil.explain()` for a run.",
        "",
    ]
    for kind in operators.KINDS:
        lines += [f"## {HEADINGS[kind]}", ""]
        groups = dict.fromkeys(o.group for o in entries if o.kind == kind)
        for group in groups:
            members = [o for o in entries if o.group == group]
            names = ", ".join(f"`{o.name}`" for o in members)
            lines += (
                [f"**{group}** ({len(members)}{'' if members[0].required else ', optional'}). {members[0].text}", ""]
                + [names]
                + [""]
            )
    return page(lines)


def measured_part(measured: dict) -> str:
    """The second part: where each entry of PyTorch's operator database ran."""

    def of(results, *kinds):
        return ", ".join(d for d, r in results.items() if r.split()[0] in kinds)

    on_chip = {n: r for n, r in measured.items() if of(r, "chip", "chip+host")}
    lines = [
        "## Measured",
        "",
        f"One sample of each of the {len(measured)} entries of PyTorch's operator database (OpInfo) and each of "
        f"{', '.join(DTYPES)} that it declares for the CPU, on the twin. "
        "Every sample, with gradients, in-place and out= forms, is compared in tests/opinfo. Exactness classes: "
        "*bits*, equal to the CPU's; *bound*, products within docs/numerics.md 6, what is around them as the "
        "CPU computes it.",
        "",
        "### With products on the chip",
        "",
        "| operator | products on the chip (bound) | on the host (bits) |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{name}` | {of(r, 'chip', 'chip+host')} | {of(r, 'host', 'host~')} |" for name, r in sorted(on_chip.items())
    ]
    lines += ["", "### On the host, the CPU's bits", ""]
    by_types = {}
    for name, r in sorted(measured.items()):
        if name not in on_chip and of(r, "host"):
            by_types.setdefault(of(r, "host"), []).append(f"`{name}`")
    for types, names in sorted(by_types.items(), key=lambda item: -len(item[1])):
        lines += [f"**{types}** ({len(names)})", ""] + [", ".join(names)] + [""]
    lines += [
        "### On the host, not the CPU's bits in this sample",
        "",
        "Their results are not determined: memory that nobody wrote, or an order that no rule fixes.",
        "",
        "| operator | types |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {of(r, 'host~')} |" for name, r in sorted(measured.items()) if of(r, "host~")]
    lines += ["", "### Raises here, not on the CPU", "", "| operator | types | error |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {of(r, 'error')} | "
        f"{', '.join(sorted({x.split()[1] for x in r.values() if x.startswith('error')}))} |"
        for name, r in sorted(measured.items())
        if of(r, "error")
    ]
    lines += [
        "",
        "### For CUDA only: the CPU raises as well",
        "",
        ", ".join(f"`{name}`" for name, r in sorted(measured.items()) if set(r.values()) == {"none"}),
    ]
    return page(lines) + "\n"


def write(path) -> None:
    page = table_part() + "\n" + measured_part(measure())
    with open(path, "w") as file:
        file.write(page)
