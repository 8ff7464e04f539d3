# SPDX-License-Identifier: Apache-2.0
"""What the RTL itself says of a top's ports: the clock at which an output changes, the level at which a reset resets.
Only what is certain is said: of what is not understood, nothing."""

import collections

EDGES = {"POS": "high", "NEG": "low"}
OTHER = {"high": "low", "low": "high"}


def parts(node):
    """The nodes below."""
    for value in node.values():
        if isinstance(value, list):
            yield from (x for x in value if isinstance(x, dict) and "type" in x)


def references(node, access):
    """Variables of a flattened model that are read ("RD") or written ("WR") below."""
    found = {node["varScopep"]} if node["type"] == "VARREF" and node["access"] in (access, "RW") else set()
    for part in parts(node):
        found |= references(part, access)
    return found


def plain(node):
    """(variable, whether it is inverted) of an expression that is one variable of one bit; else None."""
    if node["type"] == "VARREF":
        return node["varScopep"], False
    if node["type"] in ("NOT", "LOGNOT"):
        inside = plain(node["lhsp"][0])
        return inside and (inside[0], not inside[1])
    return None


def constant_only(nodes):
    """Whether there are assignments, and every one of them is of a constant."""
    assigned = [n for n in walk(nodes) if n["type"] in ("ASSIGN", "ASSIGNDLY")]
    return bool(assigned) and all(n["rhsp"][0]["type"] == "CONST" for n in assigned)


def walk(nodes):
    for node in nodes:
        yield node
        yield from walk(parts(node))


class Signals:
    """tree: of `verilator --json-only --flatten`."""

    def __init__(self, tree):
        scope = next(s for s in tree["modulesp"][0]["stmtsp"] if s["type"] == "TOPSCOPE")["scopep"][0]
        self.inside = collections.defaultdict(set)  # variable -> those that it is computed from without a clock
        self.same = {}  # variable -> (the one that it is, whether inverted)
        self.clocks = collections.defaultdict(set)  # variable -> the clocks at whose edges it is written
        self.levels = collections.defaultdict(set)  # variable -> the levels at which it resets something
        self.names, self.left = {}, []
        variables = [node for node in walk([scope]) if node["type"] == "VARSCOPE"]
        for node in variables:
            self.names.setdefault(node["name"], node["addr"])
        blocks = [node for node in walk([scope]) if node["type"] in ("ALWAYS", "ASSIGNW")]
        for node in blocks:
            self.take(node)
        for condition, level in self.left:
            self.resets(condition, level)

    def take(self, node):
        items = [n for tree in node.get("sentreep", []) for n in walk([tree]) if n["type"] == "SENITEM"]
        edges = [n for n in items if n.get("edgeType") in EDGES and n["sensp"][0]["type"] == "VARREF"]
        if not edges:
            self.combine(node)
            return
        body = node["stmtsp"]
        read = set().union(*(references(n, "RD") for n in body))
        asynchronous = [n for n in edges if n["sensp"][0]["varScopep"] in read] if len(edges) > 1 else []
        clocks = {n["sensp"][0]["varScopep"] for n in edges if n not in asynchronous}
        for variable in set().union(*(references(n, "WR") for n in body)):
            self.clocks[variable] |= clocks
        for n in asynchronous:
            self.left.append(((n["sensp"][0]["varScopep"], False), EDGES[n["edgeType"]]))
        for n in body if not asynchronous else []:
            condition, branches = self.choice(n)
            if condition and branches[0] != branches[1]:
                self.left.append((condition, "high" if branches[0] else "low"))

    @staticmethod
    def choice(node):
        """What an assignment behind an edge depends on first, and of its two branches which only set constants."""
        if node["type"] == "IF":
            return plain(node["condp"][0]), [constant_only(node.get(key, [])) for key in ("thensp", "elsesp")]
        chosen = node["rhsp"][0] if node["type"] in ("ASSIGN", "ASSIGNDLY") else node
        if chosen["type"] != "COND":  # what Verilator makes of an if with one assignment in each branch
            return None, []
        return plain(chosen["condp"][0]), [chosen[key][0]["type"] == "CONST" for key in ("thenp", "elsep")]

    def combine(self, node):
        written, read = references(node, "WR"), references(node, "RD")
        for variable in written:
            self.inside[variable] |= read
        body = [node] if node["type"] == "ASSIGNW" else node["stmtsp"]
        alone = plain(body[0]["rhsp"][0]) if len(body) == 1 and "rhsp" in body[0] else None
        if alone and body[0]["lhsp"][0]["type"] == "VARREF":
            self.same[body[0]["lhsp"][0]["varScopep"]] = alone

    def origin(self, variable):
        """(the port or register that a variable is, whether inverted)."""
        inverted, seen = False, set()
        while variable in self.same and variable not in seen:
            seen.add(variable)
            variable, more = self.same[variable]
            inverted ^= more
        return variable, inverted

    def resets(self, condition, level):
        variable, inverted = self.origin(condition[0])
        self.levels[variable].add(OTHER[level] if inverted ^ condition[1] else level)

    # ---- answers

    def reset_level(self, port):
        """ "high", "low", or None: not known, or both."""
        levels = self.levels.get(self.names.get(port), set())
        return next(iter(levels)) if len(levels) == 1 else None

    def clocks_of(self, port, clocks):
        """Those of the ports `clocks` with which an output changes; none: not known."""
        known = {self.names.get(clock): clock for clock in clocks}
        found, seen, left = set(), set(), [self.names.get(port)]
        while left:
            variable = left.pop()
            if variable in seen or variable is None:
                continue
            seen.add(variable)
            left += self.inside.get(variable, ())
            for clock in self.clocks.get(variable, ()):
                name = known.get(self.origin(clock)[0])
                if name is None:  # gated or divided inside
                    return set()
                found.add(name)
        return found
