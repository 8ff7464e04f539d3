# SPDX-License-Identifier: Apache-2.0
"""Which lines of the RTL drive a signal: by the syntax of its files, without elaborating them."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from .trace import WavesError, needs

ASSIGNMENT = re.compile(r"AssignmentExpression$")
REGISTERED = "NonblockingAssignmentExpression"
NAME = re.compile(r"[A-Za-z_]\w*")
MODULES = ("ModuleDeclaration", "InterfaceDeclaration")
MOST_LINES = 6  # of one signal
DEPTH = 8  # of connections that are followed


@dataclass(frozen=True)
class Line:
    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{os.path.relpath(self.file)}:{self.line}"


@dataclass
class Instance:
    module: str
    connections: dict  # port -> (expression, line)


@dataclass
class Module:
    file: Path
    text: list  # lines
    drivers: dict = field(default_factory=dict)  # signal -> [(line, what it depends on)]
    instances: dict = field(default_factory=dict)
    ports: dict = field(default_factory=dict)  # name -> "input", "output", "inout"
    port_lines: dict = field(default_factory=dict)

    def line(self, number: int) -> Line:
        return Line(self.file, number, self.text[number - 1].strip())


def _names(expression: str) -> list:
    """Whatever an expression depends on, indices too, without members of structures."""
    return NAME.findall(re.sub(r"\d*'\w+|\.\s*\w+", " ", expression))


def _bases(expression: str) -> list:
    """The signals that an expression is made of: no indices."""
    while (flat := re.sub(r"\[[^\[\]]*\]", "", expression)) != expression:
        expression = flat
    return _names(expression)


def _kind(node) -> str:
    return str(getattr(node, "kind", "")).removeprefix("SyntaxKind.")


def _conditions(node) -> list:
    """Names in the conditions under which an assignment is made."""
    names = []
    while (node := node.parent) is not None and "Block" not in _kind(node).replace("BlockStatement", ""):
        condition = getattr(node, "predicate", None) or (node.expr if _kind(node) == "CaseStatement" else None)
        names += _names(str(condition)) if condition is not None else []
    return names


def _index(text: str) -> str:
    """The element that a path or a connection ends with, if it is a number: "[1]"."""
    found = re.search(r"\[\d+\]$", text.strip())
    return found.group() if found else ""


def _is_of(expression: str, signal: str, element: str) -> bool:
    """Whether a connection may be the signal's, or that element of it."""
    other = _index(expression)
    return signal in _bases(expression) and not (element and other and element != other)


class Design:
    """Modules of the files; `top` is where paths begin."""

    def __init__(self, places, top: str):
        parse = needs("pyslang.syntax").SyntaxTree.fromFile
        self.top, self.modules = top, {}
        files = [f for p in map(Path, places) for f in (sorted(p.rglob("*.*v")) if p.is_dir() else [p])]
        for file in files:
            if file.suffix not in (".sv", ".v"):
                continue
            if not file.is_file():
                raise WavesError(f"{file}: no such RTL file")
            self._add(parse(str(file)), file)
        if top not in self.modules:
            raise WavesError(
                f"no module {top} in {len(files)} RTL files ({', '.join(map(str, places)) or 'none given'}): "
                "say where it is with --rtl"
            )

    def _add(self, tree, file: Path) -> None:
        lines = file.read_text(errors="replace").splitlines()
        root = tree.root
        for node in [root] if _kind(root) in MODULES else list(getattr(root, "members", ())):
            if _kind(node) in MODULES:
                module = Module(file, lines)
                self.modules[node.header.name.valueText] = module
                self._fill(module, node, tree.sourceManager)

    def _fill(self, module: Module, node, sources) -> None:
        direction = "input"
        for port in getattr(node.header.ports, "ports", None) or ():
            if _kind(port) != "ImplicitAnsiPort":
                continue
            said = str(getattr(port.header, "direction", "") or "").split()
            direction = said[-1] if said else direction
            name = port.declarator.name.valueText
            module.ports[name] = direction
            module.port_lines[name] = sources.getLineNumber(port.sourceRange.start)

        def visit(item):
            kind = _kind(item)
            if ASSIGNMENT.search(kind):
                line = sources.getLineNumber(item.sourceRange.start)
                # What a register takes in a cycle has come before it: it follows from nothing of the same cycle.
                depends = [] if kind == REGISTERED else _names(str(item.right)) + _conditions(item)
                for name in _bases(str(item.left)):
                    module.drivers.setdefault(name, []).append((line, depends))
            elif kind == "HierarchyInstantiation":
                for instance in item.instances:
                    if _kind(instance) == "HierarchicalInstance":
                        self._connect(module, item.type.valueText, instance, sources)

        node.visit(visit)

    def _connect(self, module: Module, name: str, instance, sources) -> None:
        found = Instance(name, {})
        for connection in instance.connections:
            if _kind(connection) == "NamedPortConnection":
                port = connection.name.valueText
                expression = str(connection.expr).strip() if connection.expr else port
                found.connections[port] = (expression, sources.getLineNumber(connection.sourceRange.start))
        module.instances[instance.decl.name.valueText] = found

    def place(self, path: str) -> tuple:
        """(module's name, instances above it, signal) of a path below the top."""
        parts, name, above = re.split(r"\.", path), self.top, []
        while len(parts) > 1:
            instance = self.modules[name].instances.get(parts[0].split("[")[0])
            if instance is None or instance.module not in self.modules:
                # A generate block, or a structure, whose members have no drivers of their own.
                if parts[0].split("[")[0] in self.modules[name].drivers:
                    break
                parts = parts[1:]
                continue
            above.append((name, parts[0]))
            name, parts = instance.module, parts[1:]
        return name, above, parts[0].split("[")[0]

    def drivers(self, path: str) -> list:
        """[(Line, paths it depends on)] of what drives a signal, followed through ports."""
        return self._drivers(*self.place(path), DEPTH, _index(path))[:MOST_LINES]

    def assigns(self, path: str, lines: list) -> bool:
        """Whether the first of its lines is in the signal's own module, not behind a port."""
        return bool(lines) and self.modules[self.place(path)[0]].file == lines[0][0].file

    def _drivers(self, name: str, above: list, signal: str, depth: int, element: str = "") -> list:
        module, found = self.modules[name], []
        place = [instance for _, instance in above]
        for line, inputs in module.drivers.get(signal, ()):
            found.append((module.line(line), [".".join([*place, i]) for i in inputs]))
        if depth == 0:
            return found
        # Of a vector some bits may be assigned here, and others be an instance's.
        for instance_name, instance in module.instances.items():
            child = self.modules.get(instance.module)
            for port, (expression, _) in instance.connections.items():
                if child and child.ports.get(port) == "output" and _is_of(expression, signal, element):
                    found += self._drivers(instance.module, [*above, (name, instance_name)], port, depth - 1)
        if found or module.ports.get(signal) != "input":
            return found
        if not above:
            return [(Line(module.file, module.port_lines[signal], f"input {signal} of the chip"), [signal])]
        parent, instance_name = above[-1]
        connections = self.modules[parent].instances[instance_name.split("[")[0]].connections
        expression, line = connections.get(signal, (signal, None))
        bases = _bases(expression)
        if len(bases) == 1:
            return self._drivers(parent, above[:-1], bases[0], depth - 1, _index(expression) or element)
        return [(self.modules[parent].line(line), [".".join([*place[:-1], b]) for b in bases])] if line else []
