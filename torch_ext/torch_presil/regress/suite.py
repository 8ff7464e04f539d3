# SPDX-License-Identifier: Apache-2.0
"""Suites: TOML files of cases, found by name on a search path (docs/regress.md says what a file may hold)."""

import difflib
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .exit_codes import UsageError

PACKAGED = Path(__file__).resolve().parent / "suites"
SOURCE_ROOT = Path(__file__).resolve().parents[3]  # of a source tree; of an installed package something else

TEXTS = ["chips", "builds", "memory", "stress", "tags", "testpoints", "needs"]
COMMON = {
    "about": str,
    "kind": str,
    **dict.fromkeys(TEXTS, list),
    "seeds": list,
    "reseed": int,
    "timeout_cycles": int,
    "timeout_seconds": (int, float),
    "threads": int,
    "env": dict,
}
DEFAULTS = {"reseed": 1, "timeout_cycles": 0, "timeout_seconds": 600, "threads": 1}
# Of the kinds that are built in: parameter -> (type, default); a default of None: optional; ...: must be given.
KINDS = {
    "cosim": {
        "model": (str, ...),
        "dtype": (str, "bf16"),
        "input": ((str, list), None),
        "layers": (str, None),
        "distinct": (bool, False),
        "mode": (str, "verify"),
        "config": (dict, None),
        "weights": (str, None),
        "check": (bool, False),
    },
    "layers": {
        "model": (str, ...),
        "dtype": (str, "bf16"),
        "input": ((str, list), None),
        "layers": (str, None),
        "config": (dict, None),
        "weights": (str, None),
        "arguments": (list, []),
    },
    "bundle": {"file": (str, ...), "mode": (str, "rtl"), "arguments": (list, [])},
    "command": {"command": (list, ...), "directory": (str, "")},
}


@dataclass
class Kind:
    """A kind that a team defines in kinds.toml or in a suite: a command with parameters of its own."""

    name: str
    command: list
    parameters: dict
    folder: str
    about: str = ""


@dataclass
class Case:
    suite: str
    name: str
    kind: str
    folder: str  # of the file that it is from
    parameters: dict
    common: dict
    template: list = field(default_factory=list)  # the command of a team's own kind

    @property
    def full_name(self) -> str:
        return f"{self.suite}/{self.name}"


def search_path(extra=()) -> list[Path]:
    """Folders of suites, the first one's names before the others': --suites, PRESIL_SUITES, tests/regress of the source
    tree, those of the package."""
    given = [Path(p) for p in (*extra, *filter(None, os.environ.get("PRESIL_SUITES", "").split(os.pathsep)))]
    for folder in given:
        if not folder.is_dir():
            raise UsageError(f"--suites {folder}: there is no such folder")
    own = SOURCE_ROOT / "tests" / "regress"
    return [*given, *([own] if own.is_dir() else []), PACKAGED]


def available(folders: list[Path]) -> dict[str, Path]:
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            if path.stem not in ("kinds", "testplan", "holes") and "." not in path.stem:  # mychip.view.toml
                found.setdefault(path.stem, path)
    return found


def _near(name: str, names) -> str:
    near = difflib.get_close_matches(name, list(names), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _read(path: Path) -> dict:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: can't be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error


def _typed(where: str, name: str, value, kind) -> None:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    wrong_bool = isinstance(value, bool) and bool not in kinds
    if wrong_bool or not isinstance(value, kind):
        wanted = " or ".join({str: "text", list: "a list", dict: "a table"}.get(k, k.__name__) for k in kinds)
        raise UsageError(f"{where}: {name} = {value!r}: expected {wanted}")


def _kinds_of(table: dict, path: Path) -> dict[str, Kind]:
    kinds = {}
    for name, body in table.items():
        where = f"{path}: [kind.{name}]"
        if name in KINDS:
            raise UsageError(f"{where}: this kind is built in; choose another name")
        unknown = set(body) - {"command", "parameters", "about"}
        if unknown or not isinstance(body.get("command"), list):
            raise UsageError(f"{where}: expected command (a list), parameters (a table), about; found {sorted(body)}")
        parameters = body.get("parameters", {})
        kinds[name] = Kind(name, body["command"], parameters, str(path.parent), body.get("about", ""))
    return kinds


class Loader:
    """Reads suites of a search path, each file once."""

    def __init__(self, folders: list[Path]):
        self.folders, self.files = folders, available(folders)
        self.kinds = {}
        for folder in reversed(folders):
            path = folder / "kinds.toml"
            if path.exists():
                self.kinds.update(_kinds_of(_read(path).get("kind", {}), path))

    def path_of(self, name: str) -> Path:
        if name.endswith(".toml"):
            path = Path(name)
            if not path.is_file():
                raise UsageError(f"suite {name}: there is no such file")
            return path.resolve()
        if name not in self.files:
            raise UsageError(
                f"there is no suite {name!r}{_near(name, self.files)}; found: {', '.join(sorted(self.files))} "
                f"(in {', '.join(map(str, self.folders))})"
            )
        return self.files[name]

    def load(self, names) -> list[Case]:
        """The cases of suites, SUITE/CASE or files, each once, in order."""
        cases, seen = [], set()
        for name in names:
            suite, slash, wanted = (name, "", "") if name.endswith(".toml") else name.partition("/")
            some = self._suite(self.path_of(suite), ())
            if slash:
                some = self._one(some, suite, wanted)
            for case in some:
                if case.full_name not in seen:
                    seen.add(case.full_name)
                    cases.append(case)
        return cases

    @staticmethod
    def _one(cases: list, suite: str, wanted: str) -> list:
        found = [case for case in cases if wanted in (case.name, case.full_name)]
        if not found:
            names = [case.name for case in cases]
            raise UsageError(f"suite {suite} has no case {wanted!r}{_near(wanted, names)}: {', '.join(names)}")
        return found

    def _suite(self, path: Path, above: tuple) -> list[Case]:
        if path in above:
            raise UsageError(f"{path} includes itself: {' -> '.join(p.stem for p in (*above, path))}")
        table = _read(path)
        unknown = set(table) - {"suite", "case", "kind"}
        if unknown:
            raise UsageError(
                f"{path}: [{sorted(unknown)[0]}] is unknown; a suite has [suite], [case.NAME], [kind.NAME]"
            )
        head = table.get("suite", {})
        unknown = set(head) - {"about", "include", "defaults"}
        if unknown:
            raise UsageError(f"{path}: [suite] has no {sorted(unknown)[0]!r}; it has about, include, defaults")
        kinds = {**self.kinds, **_kinds_of(table.get("kind", {}), path)}
        cases = []
        for name in head.get("include", []):
            cases += self._included(name, (*above, path))
        for name, body in table.get("case", {}).items():
            cases.append(self._case(path, name, {**head.get("defaults", {}), **body}, kinds))
        if not cases:
            raise UsageError(f"{path}: no case in it")
        return cases

    def _included(self, name: str, above: tuple) -> list[Case]:
        suite, slash, wanted = name.partition("/")
        cases = self._suite(self.path_of(suite), above)
        return self._one(cases, suite, wanted) if slash else cases

    def _case(self, path: Path, name: str, body: dict, kinds: dict) -> Case:
        where = f"{path}: [case.{name}]"
        kind = body.get("kind")
        if kind not in KINDS and kind not in kinds:
            names = [*KINDS, *kinds]
            raise UsageError(f"{where}: kind = {kind!r}{_near(str(kind), names)}: expected one of {', '.join(names)}")
        common = {**DEFAULTS, **{key: body[key] for key in COMMON if key in body}}
        for key, value in common.items():
            _typed(where, key, value, COMMON[key])
        for key in TEXTS:
            for value in common.get(key, []):
                _typed(where, key, value, str)
        if common["reseed"] < 1:
            raise UsageError(f"{where}: reseed = {common['reseed']}: expected 1 or more")
        given = {key: value for key, value in body.items() if key not in COMMON}
        template, folder = [], str(path.parent.resolve())
        if kind in KINDS:
            parameters = self._parameters(where, given, KINDS[kind])
        else:
            own = kinds[kind]
            known = {key: (type(value), value) for key, value in own.parameters.items()}
            parameters, template = self._parameters(where, given, known), own.command
            parameters["kind_folder"] = own.folder
        return Case(path.stem, name, kind, folder, parameters, common, template)

    @staticmethod
    def _parameters(where: str, given: dict, known: dict) -> dict:
        for key, value in given.items():
            if key not in known:
                names = [*known, *COMMON]
                raise UsageError(f"{where}: {key!r} is unknown{_near(key, names)}; expected one of {', '.join(names)}")
            _typed(where, key, value, known[key][0])
        missing = [key for key, (_, default) in known.items() if default is ... and key not in given]
        if missing:
            raise UsageError(f"{where}: {missing[0]} is missing")
        return {key: given.get(key, default) for key, (_, default) in known.items()}
