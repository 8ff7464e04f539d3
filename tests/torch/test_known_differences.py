# SPDX-License-Identifier: Apache-2.0
"""docs/known-differences.md: each line has a test that exists, and each entry here a line."""

import ast
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
TESTS = {
    "host-fallback": "test_device.py::test_fallback_mutates_resizes_and_aliases_like_the_cpu",
    "explain": "test_explain.py::test_chip_host_composite_and_metadata",
    "explain-metadata": "test_explain.py::test_chip_host_composite_and_metadata",
    "explain-backward-line": "test_explain.py::test_backward_has_the_line_of_its_forward",
    "explain-one": "test_explain.py::test_one_at_a_time_and_usable_after_an_error",
    "strict": "test_explain.py::test_strict_names_operator_reason_and_line",
    "moves": "test_device.py::test_moves_by_the_host_are_counted_and_pass_strict_mode",
    "weights-packed": "test_weights.py::test_weights_of_now",
    "mixed-devices": "test_device.py::test_mixed_devices_are_refused",
    "one-queue": "test_streams.py::test_launches_of_all_streams_run_in_the_order_of_enqueuing",
    "error-lines": "test_errors.py::test_a_fault_in_a_backward_pass_names_the_node_and_the_forward_line",
    "memory-mapped": "test_memory.py::test_statistics_follow_allocations",
    "elapsed-time": "test_events.py::test_without_a_clock_elapsed_time_says_which_modes_have_one",
    "simulated-time": "test_profiler.py::test_kernels_in_simulated_time",
    "no-clock": "test_profiler.py::test_no_clock_no_time",
    "profiler-track": "test_profiler.py::test_kernels_in_simulated_time",
    "profiler-host-operators": "test_profiler.py::test_linked_to_the_operator",
    "compile-backend": "test_compile.py::test_without_a_backend_it_is_ours",
    "compile-left-out": "test_compile.py::test_what_is_in_no_partition_says_why",
    "graph-restores": "test_graph.py::test_whole_training_step",
    "graph-refused": "test_graph.py::test_refused_with_the_operators_name",
    "graph-weights": "test_graph.py::test_resnet18_bits",
    "data-parallel": "test_known_differences.py::test_data_parallel_is_not_in_this_torch",
    "collectives": "test_distributed.py::check_that_launches_come_first",
    "collectives-capture": "test_distributed.py::check_capture_is_refused",
    "printing": "test_printing.py::test_nothing_runs",
    "numpy": "test_interchange.py::test_numpy",
    "dlpack-device": "test_dlpack.py::test_device",
    "no-ipc": "test_dataloader.py::test_sending_is_refused",
    "share-memory": "test_known_differences.py::test_share_memory_does_nothing",
    "fork": "test_fork.py::test_a_forked_child_is_refused_by_name_of_the_cure",
    "pinned": "test_pinned.py::test_copies_from_pinned_memory_do_not_wait_and_keep_their_order",
    "type-names": "test_interchange.py::test_type_names",
    "sparse-quantized": "test_known_differences.py::test_sparse_and_quantized_are_refused",
    "fp32-split": "test_matmul.py::test_fp32_precision_setting",
    "int-mm": "test_matmul.py::test_int_mm_is_exact",
    "linear-cross-entropy": "test_composites.py::"
    "test_chunked_linear_cross_entropy_accumulates_in_float32_as_on_the_cpu",
    "random-stream": "test_device.py::test_random_numbers_are_the_cpus",
    "privateuse2": "test_known_differences.py::test_one_backend_key",
    "opaque-tensor": "test_known_differences.py::test_tensors_have_storage_and_strides",
    "jit-passes": "test_known_differences.py::test_no_torchscript_passes",
}


def lines() -> list:
    text = (ROOT / "docs/known-differences.md").read_text()
    found = re.findall(r"^- (.*)$", text, re.M)
    names = [re.match(r"\*\*([a-z0-9-]+)\*\*: ", line) for line in found]
    assert all(names), f"a line without a name: {[line for line, n in zip(found, names, strict=True) if not n]}"
    return [n[1] for n in names]


def test_each_line_has_a_test():
    assert len(lines()) == len(set(lines())) > 20
    assert set(lines()) - set(TESTS) == set(), "lines without a test: name one in TESTS"
    assert set(TESTS) - set(lines()) == set(), "entries of TESTS without a line"


@pytest.mark.parametrize("name", TESTS)
def test_the_test_exists_runs_and_asserts(name):
    """Of the file's own level, collected by pytest or called by what is, not skipped, with something to be false."""
    file, function = TESTS[name].split("::")
    tree = ast.parse((ROOT / "tests" / ("" if "/" in file else "torch") / file).read_text())
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    assert len(found) == 1, f"{len(found)} of this name in {file}"
    names = lambda nodes: {
        n.id if isinstance(n, ast.Name) else n.attr for n in nodes if hasattr(n, "id") or hasattr(n, "attr")
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert function.startswith("test_") or function in used, f"nothing in {file} calls it"
    decorators = names(n for d in found[0].decorator_list for n in ast.walk(d))
    assert not decorators & {"skip", "skipif", "xfail"}, "it is skipped"
    helpers = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    called = [helpers[n] for n in names(ast.walk(found[0])) if n in helpers]
    inside = [n for function in [*found, *called] for n in ast.walk(function)]
    asserts = any(isinstance(n, ast.Assert) for n in inside)
    assert asserts or names(inside) & {"raises", "assert_close"}, "it asserts nothing"


def test_share_memory_does_nothing():
    t = torch.ones(3).to("presil")
    before = t.data_ptr()
    assert t.share_memory_() is t and t.data_ptr() == before


def test_sparse_and_quantized_are_refused():
    with pytest.raises((NotImplementedError, RuntimeError), match="SparsePrivateUse1|sparse"):
        torch.eye(3).to_sparse().to("presil")
    with pytest.raises((NotImplementedError, RuntimeError), match="quantize|Quantized|qint8|QInt8"):
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to("presil")


def test_data_parallel_is_not_in_this_torch():
    assert not hasattr(torch._C, "_scatter"), (
        "this torch could scatter: try DataParallel, and change the line in docs/known-differences.md"
    )
    with pytest.raises(AttributeError, match="_scatter"):
        torch.nn.DataParallel(torch.nn.Linear(2, 2).to("presil:0"), device_ids=[0])(torch.ones(2, 2, device="presil:0"))


def test_one_backend_key():
    keys = torch._C._dispatch_keys(torch.ones(2).to("presil"))
    assert keys.has(torch._C.DispatchKey.PrivateUse1)
    for key in ("PrivateUse2", "PrivateUse3"):
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)
        assert not registered, registered[:3]


def test_tensors_have_storage_and_strides():
    t = torch.ones(2, 3).to("presil")
    assert (
        torch._C._has_storage(t)
        and t.t().stride() == (1, 3)
        and t.t().untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
    )


def test_no_torchscript_passes():
    sources = [p for p in (ROOT / "torch_ext").rglob("*") if p.suffix in (".cpp", ".h", ".py")]
    assert sources and not [
        p
        for p in sources
        if re.search(r"RegisterPass|registerPostPass|registerPrePass|_jit_register_decomposition", p.read_text())
    ]
