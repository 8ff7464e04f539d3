# SPDX-License-Identifier: Apache-2.0
"""What became of each operator of a converted graph."""

import io
import json
import os

from rich.console import Console
from rich.table import Table
from torch import fx

from torch_presil.pt2e.converted import label_of, line_of, role

__all__ = ["Report"]


def _reaches_integers(node: fx.Node, neighbours) -> bool:
    """neighbours(node): the nodes before it, or those behind. Calls of modules are what computes on codes."""
    seen, todo = set(), [node]
    while todo:
        for n in neighbours(todo.pop()):
            if n.op == "call_module":
                return True
            if n not in seen:
                seen.add(n)
                todo.append(n)
    return False


def _between(node: fx.Node) -> bool:
    before, behind = (lambda n: n.all_input_nodes), (lambda n: n.users)
    return _reaches_integers(node, before) and _reaches_integers(node, behind)


def _name(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_function" else node.op


class Report:
    """Rows: node, operator, where ("int8": in a launch of the chip; "codes": on int8 codes; "float"), into (the node of
    the lowered graph), result ("int8" or "float32"), reason (of "float"), between (of "float": whether codes come to it
    and go on behind it), module, file, line."""

    def __init__(self):
        self._rows, self._reasons = {}, {}
        self.rows, self.conversions = [], []

    def _set(self, node, **row) -> None:
        self._rows[node] = row

    def knows(self, node) -> bool:
        return node in self._rows

    def launches(self, nodes, new, label, result) -> None:
        for node in nodes:
            self._set(node, where="int8", into=new.name, result=result, label=label)

    def operates(self, nodes, new) -> None:
        for node in nodes:
            self._set(node, where="codes", into=new.name, result="int8", label=None)

    def keeps(self, node, new) -> None:
        self._set(node, where="codes", into=new.name, result="int8", label=None)

    def floats(self, node, reason: str) -> None:
        self._reasons.setdefault(node, reason)

    def converts(self, node, what: str) -> None:
        self.conversions.append({"node": node.name, "what": what})

    def finish(self, nodes: list, codes: dict) -> list:
        """nodes: of the graph before, in order, what is left of it lowered; after it only `rows` holds anything.
        Returns (node, reason) of each that lies between operators on codes."""
        left = []
        for node in nodes:
            if node.op != "call_function" or (role(node) in ("quantize", "dequantize") and node not in self._reasons):
                continue
            if str(node.target).startswith(("aten.sym_", "<built-in", "<function")):
                continue
            file, line = line_of(node)
            row = self._rows.get(node)
            if row is None:
                reason = self._reasons.get(node) or self._plain_reason(node, codes)
                row = {"where": "float", "into": None, "result": "float32", "label": None, "reason": reason}
            self.rows.append(
                {
                    "node": node.name,
                    "operator": _name(node),
                    "where": row["where"],
                    "into": row["into"],
                    "result": row["result"],
                    "reason": row.get("reason"),
                    "between": row["where"] == "float" and _between(node),
                    "module": label_of(node),
                    "file": file,
                    "line": line,
                }
            )
            if self.rows[-1]["between"]:
                left.append((node, row["reason"]))
        del self._rows, self._reasons
        return left

    def _plain_reason(self, node, codes) -> str:
        if not any(codes.get(n) for n in node.all_input_nodes):
            return "no operand is quantized"
        if plain := [n.name for n in node.all_input_nodes if not codes.get(n)]:
            return f"its operand {plain[0]} is not quantized"
        if not any(role(n) == "quantize" for n in node.users):
            return "its result is not quantized"
        return "no int8 form of this operator"

    @property
    def in_float32(self) -> list:
        """Rows in float32."""
        return [row for row in self.rows if row["where"] == "float"]

    @property
    def floats_between(self) -> list:
        """Those that lie between operators on codes, not before the first or behind the last."""
        return [row for row in self.in_float32 if row["between"]]

    def launches_count(self) -> int:
        return len({row["into"] for row in self.rows if row["where"] == "int8"})

    def to_dict(self) -> dict:
        count = {place: sum(row["where"] == place for row in self.rows) for place in ("int8", "codes", "float")}
        return {
            "launches": self.launches_count(),
            "operators": count,
            "conversions": self.conversions,
            "rows": self.rows,
        }

    def json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def __call__(self) -> "Report":
        return self

    def __str__(self) -> str:
        document = self.to_dict()
        table = Table(box=None, pad_edge=False)
        for heading in ("node", "operator", "where", "launch, or why not", "line"):
            table.add_column(heading, overflow="fold")
        for row in self.rows:
            line = f"{os.path.basename(row['file'])}:{row['line']}" if row["file"] else ""
            table.add_row(row["node"], row["operator"], row["where"], row["reason"] or row["into"], line)
        text = io.StringIO()
        Console(width=110, file=text).print(table)
        n = document["operators"]
        kinds = [c["what"] for c in self.conversions]
        places = f"{n['int8']} operators; {n['codes']} work on codes; {n['float']} stay float32"
        left = f"{kinds.count('quantize')} quantize and {kinds.count('dequantize')} dequantize"
        return f"{document['launches']} int8 launches hold {places}; {left}\n{text.getvalue()}"
