# SPDX-License-Identifier: Apache-2.0
"""Every operator that PyTorch requires of a device is accounted for, and the table's claims hold in the dispatcher."""

import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch_presil import operators, operators_page

TABLE = operators.table()
REQUIRED = operators.required()


def registered(name):
    return torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + name, "PrivateUse1")


def has_cpu_kernel(name):
    return torch._C._dispatch_has_computed_kernel_for_dispatch_key("aten::" + name, "CPU")


def of_kind(*kinds):
    return [o for o in TABLE.values() if o.kind in kinds]


def test_the_header_and_the_table_know_the_same_operators():
    assert len(REQUIRED) == 858
    listed = {o.name for o in TABLE.values() if o.required}
    assert not REQUIRED.keys() - listed, "required by PyTorch, not in operators.toml"
    assert not listed - REQUIRED.keys(), "in operators.toml as required, PyTorch doesn't require it (optional = true?)"


def test_our_kernels_are_registered():
    missing = [o.name for o in of_kind("chip", "memory", "composite", "refused") if not registered(o.name)]
    assert not missing


def test_fallbacks_have_a_cpu_kernel_and_none_of_ours():
    assert not [o.name for o in of_kind("fallback") if not has_cpu_kernel(o.name)]
    assert not [o.name for o in of_kind("fallback") if registered(o.name) != o.explicit]


def test_every_kernel_of_ours_is_in_the_table():
    registrations = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    assert not {n.removeprefix("aten::") for n in registrations if n.startswith("aten::")} - TABLE.keys()


def test_optional_operators_are_really_optional():
    for o in TABLE.values():
        if not o.required:
            torch._C._get_schema("aten::" + o.name.partition(".")[0], o.name.partition(".")[2])
            assert o.name not in REQUIRED


def value_for(argument, name):
    """Something of the argument's type: enough to reach the kernel, which refuses whatever it gets."""
    kind = str(argument.type)
    if argument.has_default_value() and argument.name not in ("device", "layout"):
        return argument.default_value
    if argument.name == "layout":
        return torch.sparse_coo if "sparse" in name else None
    plain = {
        "Tensor": torch.ones(2, 2, device="presil"),
        "List[Tensor]": [torch.ones(2, 2, device="presil")],
        "int": 1,
        "float": 1.0,
        "bool": False,
        "number": 1,
        "str": "",
        "List[int]": [1, 1],
        "List[float]": [1.0],
        "Device": torch.device("presil"),
        "SymInt": 1,
        "List[SymInt]": [1, 1],
        "ScalarType": torch.float32,
    }
    if kind.startswith("Optional["):
        return torch.device("presil") if argument.name == "device" else None
    if argument.name == "dtype":
        return torch.qint8 if "quanti" in name else torch.float32
    if kind == "List[bool]":
        return [False] * (argument.N or 1)
    if kind == "Generator":
        return None
    return plain[kind]


@pytest.mark.parametrize("name", [o.name for o in of_kind("refused")])
def test_a_refused_operator_says_what_to_do(name):
    overload = getattr(getattr(torch.ops.aten, name.partition(".")[0]), name.partition(".")[2] or "default")
    positional = [value_for(a, name) for a in overload._schema.arguments if not a.kwarg_only]
    keywords = {a.name: value_for(a, name) for a in overload._schema.arguments if a.kwarg_only}
    with pytest.raises(NotImplementedError) as caught, torch.no_grad():
        overload(*positional, **keywords)
    message = str(caught.value)
    assert (
        message.startswith("presil: aten::")
        and TABLE[name].text in message
        or "holds strided tensors. Use the CPU" in message
    ), message


def test_other_layouts_are_refused_at_the_door():
    dense = torch.eye(3)
    for make, text in (
        (lambda: dense.to("presil").to_sparse(), "to_dense"),
        (lambda: dense.to("presil").to_sparse_csr(), "to_dense"),
        (lambda: dense.to_sparse().to("presil"), "sparse"),
        (lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="presil"), "sparse"),
        (lambda: dense.to("presil").to_mkldnn(), "to_mkldnn"),
        (lambda: torch.quantize_per_tensor(dense.to("presil"), 0.1, 0, torch.qint8), "int8"),
        (lambda: torch.nested.nested_tensor([dense, dense[:2]], device="presil") * 2, "jagged"),
    ):
        with pytest.raises(NotImplementedError, match=text):
            make()


def test_public_operators_avoid_what_is_refused():
    """ctc_loss, dropout, grid_sample, batch norm and LSTM have kernels of several vendors; on presil they run."""
    logits, targets = torch.randn(12, 2, 5).log_softmax(2), torch.randint(1, 5, (2, 4))
    lengths = (torch.tensor([12, 12]), torch.tensor([4, 3]))
    assert torch.equal(
        F.ctc_loss(logits.to("presil"), targets.to("presil"), *lengths).cpu(), F.ctc_loss(logits, targets, *lengths)
    )
    x, grid = torch.randn(2, 3, 5, 5), torch.rand(2, 4, 4, 2)
    assert torch.equal(
        F.grid_sample(x.to("presil"), grid.to("presil"), align_corners=False).cpu(),
        F.grid_sample(x, grid, align_corners=False),
    )
    assert torch.equal(
        F.batch_norm(x.to("presil"), None, None, training=True).cpu(), F.batch_norm(x, None, None, training=True)
    )


def test_command(capsys):
    assert operators.main(["mm.out", "_coal*", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert {e["name"]: e["kind"] for e in entries} == {
        "mm.out": "chip",
        "_coalesce": "refused",
        "_coalesced_": "refused",
    }
    assert operators.main(["there_is_no_such"]) == 1
    assert "no operator" in capsys.readouterr().err


def test_the_page_in_docs_is_current():
    """Its first part is the table; its second names every entry of PyTorch's operator database that declares one of
    our types."""
    from torch.testing._internal.common_methods_invocations import op_db

    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()
    assert page.startswith(operators_page.table_part()), "python -m torch_presil.operators --write docs/operators.md"
    measured = page[page.index("## Measured") :]
    declared = {
        e.name + (f".{e.variant_test_name}" if e.variant_test_name else "")
        for e in op_db
        if set(operators_page.DTYPES.values()) & set(e.supported_dtypes("cpu"))
    }
    assert not [name for name in declared if f"`{name}`" not in measured]
