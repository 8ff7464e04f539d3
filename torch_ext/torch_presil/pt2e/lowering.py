# SPDX-License-Identifier: Apache-2.0
"""From a converted PT2E graph (float32 operators between dequantization and quantization) to one of int8 codes.

A quantize node is the end of what becomes one launch or one operator on codes; what feeds it is looked for backwards.
Products that no quantization follows give float32 from the same launch. Everything else stays as it is, between a
Quantize and a Dequantize, with a reason."""

import copy

import torch
from torch import fx

from torch_presil import _C
from torch_presil.pt2e import on_codes
from torch_presil.pt2e.constant_products import (
    ADDS,
    NO_INT8,
    bounds,
    build_layer,
    chain_to,
    does_nothing,
    identity_layer,
    is_product,
    operands,
    same_shape,
    set_result,
)
from torch_presil.pt2e.converted import (
    Codes,
    Constants,
    QuantizationError,
    Refused,
    label_of,
    parameters,
    role,
    shape_of,
    where,
)
from torch_presil.pt2e.fates import Report
from torch_presil.pt2e.functional import functionalize
from torch_presil.pt2e.integer_layers import Dequantize, Int8Add, Int8MatMul, Int8Mul, Quantize, Table
from torch_presil.pt2e.splits import as_slices

__all__ = ["lower"]

aten = torch.ops.aten


@fx.node.has_side_effect
def stays_float32(operator: str, reason: str) -> None:
    """Stands before an operator that is left between operators on codes. For torch.presil.explain()."""
    if not torch.compiler.is_compiling():
        _C.note_operator(operator, f"float32 between int8 operators: {reason}")


class _Lowering:
    def __init__(self, gm: fx.GraphModule):
        as_slices(gm.graph)
        functionalize(gm.graph)
        self.gm, self.graph, self.constants = gm, gm.graph, Constants(gm)
        self.known = {}  # node → (node of its codes, Codes), or None
        self.report = Report()

    # ---- nodes and their codes

    def call(self, name: str, module, args: tuple, like: fx.Node) -> fx.Node:
        """A call of `module` for the node `like`, at the graph's point of insertion."""
        name = f"int8_{name}"
        self.gm.add_submodule(name, module)
        new = self.graph.create_node("call_module", name, args)
        kept = ("stack_trace", "nn_module_stack", "from_node")
        new.meta.update({key: like.meta[key] for key in kept if key in like.meta})
        return new

    def codes(self, node) -> tuple[fx.Node, Codes] | None:
        """The codes of a float32 node, if its value is exactly theirs."""
        if node not in self.known:
            self.known[node] = None
            self.known[node] = self.find_codes(node)
        return self.known[node]

    def find_codes(self, node):
        if not isinstance(node, fx.Node) or node.op != "call_function":
            return None
        if role(node) == "dequantize":
            return self.codes_of_dequantize(node)
        if not on_codes.moves_codes(node):
            return None
        inputs = [self.codes(n) for n in on_codes.moved(node)]
        if not inputs or None in inputs or any(i[1] != inputs[0][1] for i in inputs):
            return None
        q = inputs[0][1]
        with self.graph.inserting_after(node):
            new = on_codes.move(
                self.graph, node, {n: i[0] for n, i in zip(on_codes.moved(node), inputs, strict=True)}, q
            )
        new.meta.update({k: v for k, v in node.meta.items() if k != "val"})
        self.report.keeps(node, new)
        return new, q

    def codes_of_dequantize(self, node):
        source = node.args[0]
        if role(source) != "quantize" or self.constants.has(source):
            return None
        try:
            mine, theirs = parameters(node, self.constants), parameters(source, self.constants)
        except Refused:
            return None
        if mine != theirs:
            raise QuantizationError(
                f"{where(node)}: dequantized with {mine}, but {source.name} quantized with {theirs}. One value needs "
                "one scale and zero point (int8 codes: uint8 less 128): convert again from the prepared model."
            )
        return self.known.get(source)

    # ---- what a quantize node ends

    def quantize(self, node: fx.Node) -> None:
        try:
            q = parameters(node, self.constants)
        except Refused as refused:
            self.report.floats(node, str(refused))
            return
        x = node.args[0]
        twin = next((n for n in x.users if n in self.known and n is not node and role(n) == "quantize"), None)
        if twin is not None and self.known[twin] and self.known[twin][1] == q:
            self.known[node] = self.known[twin]
            return
        with self.graph.inserting_before(node):
            new = self.ended(node, x, q)
            if new is None:
                new = self.call(node.name, Quantize(q), (x,), node)
                self.report.converts(node, "quantize")
        self.known[node] = new, q

    def ended(self, node, x, q) -> fx.Node | None:
        """The codes that `node` makes of x, without its float32 value; None: that is needed."""
        held = self.codes(x)
        if held is not None and held[1] == q:
            return held[0]
        for rule in (self.product, self.addition, self.multiplication, self.mean, self.concatenation, self.function):
            try:
                new = rule(node, x, q)
            except Refused as refused:
                self.report.floats(x, str(refused))
                continue
            if new is not None:
                return new
        return None

    def alone(self, x: fx.Node) -> None:
        if any(role(n) != "quantize" for n in x.users) or len({n.args[1:] for n in x.users}) > 1:
            raise Refused(f"the float32 value of {x.name} is used by others, too")

    def product(self, node, x, q: Codes | None):
        """Product, residual, bounds: one launch. q None: it gives float32."""
        chain = chain_to(x, is_product)
        if chain is None:
            return None
        if q is not None:
            self.alone(x)
        inner = chain.product
        try:
            return self.launch(node, chain, q)
        except Refused as refused:
            self.report.floats(inner, str(refused))
            raise

    def launch(self, node, chain, q):
        inner = chain.product
        first, second = operands(inner)[:2]
        a = self.codes(first)
        if a is None:
            raise Refused(f"its input {first.name} is not quantized")
        b = self.codes(second)
        if b is not None:
            if chain.residual is not None:
                raise Refused("a product of two activations takes no residual")
            module, args = self.matmul(inner, a, b, q), (a[0], b[0])
        else:
            module, args = build_layer(inner, a[1], q, self.constants), (a[0],)
        if chain.residual is not None:
            args += (self.residual(module, chain, q),)
        set_result(module, chain.low, chain.high, q)
        new = self.call(node.name, module, args, inner)
        self.report.launches(chain.nodes, new, label_of(inner), "int8" if q else "float32")
        return new

    def residual(self, layer, chain, q):
        add = next(n for n in chain.nodes if n.target in ADDS)
        if not same_shape(chain.residual, add) or not same_shape(chain.product, add):
            raise Refused(f"the addition {add.name} broadcasts, or its shapes are unknown")
        held = self.codes(chain.residual)
        if held is not None:
            layer.take_residual(held[1], q)
            return held[0]
        if q is not None:
            raise Refused(f"the addend {chain.residual.name} is not quantized")
        return chain.residual

    def matmul(self, node, a, b, q):
        shapes = [shape_of(n) for n in node.args[:2]]
        if node.target is aten.linear.default or len(node.args) > 2 or node.kwargs or None in shapes:
            raise Refused("its weight is computed at run time")
        if len(shapes[0]) != len(shapes[1]) or len(shapes[0]) < 2 or str(shapes[0][:-2]) != str(shapes[1][:-2]):
            raise Refused("its operands have different batches")
        return Int8MatMul(a[1], b[1], q, 0, 0)

    def addition(self, node, x, q):
        def is_sum(n):
            return n.target in ADDS and all(self.codes(a) for a in n.args[:2]) and not n.kwargs

        chain = chain_to(x, is_sum)
        if chain is None:
            return None
        self.alone(x)
        add = chain.product
        (a, qa), (b, qb) = (self.codes(n) for n in add.args[:2])
        if not all(same_shape(n, add) for n in add.args[:2]):
            raise Refused(f"the addition {add.name} broadcasts, or its shapes are unknown")
        shape = shape_of(add)
        channels = shape[1] if len(shape) == 4 else shape[-1] if len(shape) else None
        if not isinstance(channels, int):
            raise Refused("its number of channels is not fixed")
        layer = identity_layer(add.name, channels, qa, q)
        layer.take_residual(qb, q)
        set_result(layer, chain.low, chain.high, q)
        new = self.call(node.name, Int8Add(layer), (a, b), add)
        self.report.launches(chain.nodes, new, label_of(add), "int8")
        return new

    def multiplication(self, node, x, q):
        def is_product_of_codes(n):
            return n.target in (aten.mul.Tensor, aten.mul_.Tensor) and all(self.codes(a) for a in n.args[:2])

        chain = chain_to(x, is_product_of_codes)
        if chain is None:
            return None
        self.alone(x)
        (a, qa), (b, qb) = (self.codes(n) for n in chain.product.args[:2])
        module = Int8Mul(qa, qb, q, q.code(chain.low), q.code(chain.high))
        new = self.call(node.name, module, (a, b), chain.product)
        self.report.operates(chain.nodes, new)
        return new

    def mean(self, node, x, q):
        reshapes, inner = [], x
        while on_codes.reshapes(inner) and len(inner.users) == 1:
            reshapes.append(inner)
            inner = inner.args[0]
        if not on_codes.is_mean(inner) or (reshapes and len(inner.users) > 1):
            return None
        self.alone(x)
        held = self.codes(inner.args[0])
        if held is None:
            raise Refused(f"its input {inner.args[0].name} is not quantized")
        module = on_codes.average(inner, held[1], q)
        new = self.call(node.name, module, (held[0],), inner)
        self.report.operates([*reshapes, inner], new)
        for r in reversed(reshapes):
            new = on_codes.move(self.graph, r, {on_codes.moved(r)[0]: new}, q)
        return new

    def concatenation(self, node, x, q):
        if x.target is not aten.cat.default:
            return None
        self.alone(x)
        parts = [self.codes(n) for n in x.args[0]]
        if None in parts:
            missing = x.args[0][parts.index(None)]
            raise Refused(f"its part {missing.name} is not quantized")
        parts = [self.requantized(f"{node.name}_{i}", n, mine, q, x) for i, (n, mine) in enumerate(parts)]
        new = self.graph.call_function(aten.cat.default, (parts, *x.args[1:]), dict(x.kwargs))
        self.report.operates([x], new)
        return new

    def requantized(self, name, node, mine: Codes, q: Codes, like):
        return node if mine == q else self.call(name, Table(on_codes.table([], mine, q, self.constants)), (node,), like)

    def function(self, node, x, q):
        """A chain of functions of one value each, or none: a table of 256 codes."""
        nodes, inner = [], x
        while self.codes(inner) is None:
            if not on_codes.is_function(inner) or (nodes and len(inner.users) > 1):
                return None
            nodes.append(inner)
            inner = inner.args[0]
        if nodes:
            self.alone(x)
        held, mine = self.codes(inner)
        new = self.call(node.name, Table(on_codes.table(nodes[::-1], mine, q, self.constants)), (held,), x)
        self.report.operates(nodes or [node], new)
        return new

    # ---- what no quantization follows

    def real(self, product: fx.Node) -> None:
        tail = self.last_of(product)
        while tail is not None:
            try:
                with self.graph.inserting_before(tail):
                    new = self.product(tail, tail, None)
            except Refused:
                new = None
            if new is not None:
                self.replace(tail, new)
                return
            tail = None if tail is product else self.last_of(product, tail)

    def last_of(self, product, before=None):
        """The end of the longest chain from `product` that may be one launch; the longest that ends before `before`."""
        tails = [product]
        while len(tails[-1].users) == 1:
            user = next(iter(tails[-1].users))
            if not (user.op == "call_function" and (bounds(user) or does_nothing(user) or user.target in ADDS)):
                break
            tails.append(user)
        return tails[-1] if before is None else tails[tails.index(before) - 1]

    def replace(self, node: fx.Node, new: fx.Node) -> None:
        for user in list(node.users):
            if user is not new:
                user.replace_input_with(node, new)

    # ---- the whole

    def run(self) -> fx.GraphModule:
        nodes = [n for n in self.graph.nodes if not self.constants.has(n)]
        for node in nodes:
            if role(node) == "quantize":
                self.quantize(node)
        for node in nodes:
            if is_product(node) and not self.report.knows(node):
                self.real(node)
            elif node.target in NO_INT8:
                self.report.floats(node, NO_INT8[node.target])
        self.dequantize()
        for node, reason in self.report.finish(nodes, self.known):
            with self.graph.inserting_before(node):
                self.graph.call_function(stays_float32, (f"pt2e::{node.name}", reason))
        self.clean()
        return self.gm

    def readers(self) -> dict:
        """What of the result's float32 operators reads a value of which there are codes: {value: [readers]}."""
        found, seen, todo = {}, set(), [n for n in self.graph.nodes if n.op == "output" or n.is_impure()]
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            for n in node.all_input_nodes:
                held = None if role(n) == "quantize" else self.codes(n) if role(n) else self.known.get(n)
                if held:
                    found.setdefault(n, []).append(node)
                todo.append(held[0] if held else n)
        return found

    def dequantize(self) -> None:
        """What float32 operators, or the caller, read of codes."""
        for node, users in self.readers().items():
            held, q = self.known[node]
            with self.graph.inserting_before(node) if role(node) else self.graph.inserting_after(held):
                new = self.call(node.name, Dequantize(q), (held,), node)
            for user in users:
                user.replace_input_with(node, new)
            self.report.converts(node, "dequantize")
        self.graph.eliminate_dead_code()

    def clean(self) -> None:
        self.graph.lint()
        self.gm.recompile()
        self.gm.delete_all_unused_submodules()
        used = {n.target for n in self.graph.nodes if n.op == "get_attr"}
        called = tuple(f"{n.target}." for n in self.graph.nodes if n.op == "call_module")
        for name in [k for k, _ in (*self.gm.named_parameters(), *self.gm.named_buffers())]:
            if name not in used and not name.startswith(called):
                parent, _, leaf = name.rpartition(".")
                delattr(self.gm.get_submodule(parent), leaf)


def lower(converted: fx.GraphModule) -> fx.GraphModule:
    """A copy of what convert_pt2e returned, in which quantized operators are int8 launches; `.report()` lists each.

    converted: static quantization, int8 or uint8, on the CPU. The result runs on the CPU and, after .to("presil"), on
    the device with the same integers. Raises QuantizationError (a ValueError) where the graph is not quantized
    consistently, TypeError where it is no GraphModule."""
    if not isinstance(converted, fx.GraphModule):
        raise TypeError(
            f"torch_presil.pt2e.lower: the GraphModule of convert_pt2e expected, got {type(converted).__name__}"
            + (": pass .module() of it" if hasattr(converted, "module") and callable(converted.module) else "")
        )
    if not any(role(n) for n in converted.graph.nodes):
        raise QuantizationError(
            "torch_presil.pt2e.lower: nothing is quantized in this graph. Expected is what convert_pt2e returned, "
            "with a quantizer that annotated something."
        )
    lowering = _Lowering(copy.deepcopy(converted))
    lowered = lowering.run()
    lowered.report = lowering.report
    return lowered
