"""The layers import one way: ``graph`` <- ``plan`` <- ``codegen`` <- ``engine`` <- ``spark``.

The source is read, not run, so an import counts wherever it stands: in a function, under ``if TYPE_CHECKING``, or as
``import_module("...")``. ``RULES`` is total: a folder or a module of the package without a rule fails the test. The
packages beside ``src``, the examples and the benchmarks, have rules in ``OUTSIDE``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "penstock"

PUBLIC = "penstock"  # stands for `import penstock` and `from penstock import Name`, in the sets of a Rule

LIBRARIES = frozenset({"click", "llvmlite", "numba", "numpy", "pyarrow", "rich"})
SPARK_LIBRARIES = frozenset({"google", "pandas", "py4j", "pyspark"})
PEERS = frozenset({"duckdb", "polars"})
PICTURES = frozenset({"PIL"})  # picture files of most forms, where it is installed
PLOTS = frozenset({"altair", "vl_convert"})  # charts, where they are installed
SOLVER = frozenset({"scipy"})  # HiGHS, for programmes of the plan
TO_POLARS = frozenset({"polars"})  # a result may be asked for in its form, where it is installed


@dataclass(frozen=True, slots=True)
class Rule:
    """What one part of the package may import, besides itself and the standard library."""

    parts: frozenset[str]
    libraries: frozenset[str] = LIBRARIES


def may(*parts: str, libraries: frozenset[str] = LIBRARIES) -> Rule:
    return Rule(frozenset(parts), libraries)


BASE = ("errors", "text", "kernels", "graph", "plan", "codegen", "engine")
LAYERS = (*BASE, "spark", "tune", "report", "examples", "cli")

# A part is a folder or a single module directly under the package.
RULES: dict[str, Rule] = {
    "errors": may(libraries=frozenset()),
    "text": may(libraries=frozenset()),
    "kernels": may("errors", libraries=frozenset({"llvmlite", "numba", "numpy"})),
    "graph": may("errors", "kernels", libraries=LIBRARIES | TO_POLARS),
    "plan": may("errors", "text", "kernels", "graph", libraries=LIBRARIES | SOLVER),
    "codegen": may("errors", "kernels", "graph", "plan"),
    "engine": may("errors", "text", "kernels", "graph", "plan", "codegen"),
    "spark": may("errors", "kernels", "graph", "plan", "codegen", "engine", libraries=LIBRARIES | SPARK_LIBRARIES),
    "tune": may("errors", "text", "kernels", "graph", "plan", "codegen", "engine", "spark"),
    "report": may("errors", "graph", "plan", "tune", libraries=LIBRARIES | PLOTS),
    "examples": may(PUBLIC),
    "cli": may(PUBLIC, *LAYERS),
    "__init__": may("errors", "kernels", "graph", "plan", "engine", "report", libraries=frozenset()),
    "__main__": may("cli", libraries=frozenset()),
}

# The packages beside `src`: `examples` there are the applications that do not come with the package.
OUTSIDE: dict[str, Rule] = {
    "examples": may(PUBLIC, "examples", libraries=LIBRARIES | PICTURES | {"examples"}),
    "benchmarks": may(*(PUBLIC, *LAYERS), libraries=LIBRARIES | SPARK_LIBRARIES | PEERS | {"benchmarks", "examples"}),
}

# Upward imports that are allowed inside functions and for type checking only, each with its reason.
LAZY_EXCEPTIONS: dict[str, frozenset[str]] = {
    # a plan holds the loops that were written for its segments; for type checking only.
    "plan/plan.py": frozenset({"codegen"}),
    "plan/passes/size.py": frozenset({"codegen"}),
    # collect, write, explain and show are methods of a stream: the front door calls the layers behind it.
    "graph/running.py": frozenset({"report", "spark"}),
    "graph/prepare.py": frozenset({"engine", "spark", "tune"}),
    # the model of a run can be looked at.
    "tune/run_model.py": frozenset({"report"}),
    # a prediction draws its own curve.
    "tune/scaling.py": frozenset({"report"}),
    # from_spark is a front door too.
    "graph/read.py": frozenset({"spark"}),
    # a job tells how far it is, as a record that reports show.
    "spark/driver/monitor.py": frozenset({"report"}),
    # explain is a method of a run too, which knows what was chosen while it ran.
    "engine/account.py": frozenset({"report"}),
}


TUNE_MAY_RUN_BY = {f"penstock.engine.{stem}" for stem in ("run", "intake", "node_timing", "context_costs")}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, by its absolute name, and where the import stands."""

    file: str
    line: int
    module: str
    lazy: bool
    package: str = PUBLIC

    @property
    def importer(self) -> str:
        return part_of_file(self.file) if self.package == PUBLIC else self.package

    @property
    def rule(self) -> Rule:
        return RULES[self.importer] if self.package == PUBLIC else OUTSIDE[self.package]


class ImportFinder(ast.NodeVisitor):
    """Collects the imports of one file.

    Invariant: ``depth`` is the number of functions and type-checking blocks around the node being visited.
    """

    def __init__(self, file: str, package: str) -> None:
        self.file = file
        self.package = (package, *Path(file).parent.parts)
        self.depth = 0
        self.found: list[Import] = []

    def add(self, node: ast.stmt | ast.expr, module: str) -> None:
        self.found.append(Import(self.file, node.lineno, module, lazy=self.depth > 0, package=self.package[0]))

    def visit_function(self, node: ast.AST) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_function

    def visit_If(self, node: ast.If) -> None:
        if getattr(node.test, "id", None) == "TYPE_CHECKING":
            self.visit_function(node)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self.package[: len(self.package) - node.level + 1] if node.level else ()
        module = ".".join((*base, *filter(None, [node.module])))
        if module != PUBLIC:
            self.add(node, module)
            return
        for alias in node.names:  # `from penstock import graph` imports a part, `from penstock import Stream` does not
            self.add(node, f"{PUBLIC}.{alias.name}" if alias.name in RULES else PUBLIC)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if name in {"import_module", "__import__"} and node.args:
            match node.args[0]:
                case ast.Constant(value=str(module)):
                    self.add(node, module)
        self.generic_visit(node)


def part_of_file(file: str) -> str:
    """
    >>> part_of_file("graph/stream.py"), part_of_file("errors.py")
    ('graph', 'errors')
    """
    return Path(file).parts[0].removesuffix(".py")


def part_of_module(module: str) -> str:
    """
    >>> part_of_module("penstock.graph.stream"), part_of_module("penstock")
    ('graph', 'penstock')
    """
    return module.partition(".")[2].split(".")[0] or PUBLIC


def inside(part: str) -> set[str]:
    return {
        f"{PUBLIC}.{file.removesuffix('.py').replace('/', '.')}"
        for file in files(PACKAGE)
        if part_of_file(file) == part
    }


def files(package: Path) -> list[str]:
    return sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py"))


def imports(package: Path, name: str = PUBLIC) -> Iterator[Import]:
    for file in files(package):
        finder = ImportFinder(file, name)
        finder.visit(ast.parse((package / file).read_text(encoding="utf-8"), filename=file))
        yield from finder.found


def is_allowed(found: Import) -> bool:
    rule = found.rule
    root = found.module.split(".")[0]
    if root != PUBLIC:
        return root in sys.stdlib_module_names or root in rule.libraries
    part = part_of_module(found.module)
    by_exception = found.lazy and part in LAZY_EXCEPTIONS.get(found.file, frozenset())
    is_own = found.package == PUBLIC and part == found.importer
    return is_own or part in rule.parts or by_exception


def describe(found: Import) -> str:
    rule = found.rule
    return (
        f"{found.file}:{found.line}: {found.importer!r} may not import {found.module!r}; of the package it may import "
        f"{sorted(rule.parts)}, of other libraries {sorted(rule.libraries)}"
    )


def violations(all_imports: Iterable[Import]) -> list[str]:
    return [describe(found) for found in all_imports if not is_allowed(found)]


def parts_without_rule(package: Path) -> set[str]:
    return {part_of_file(file) for file in files(package)} - RULES.keys()


def test_every_part_has_a_rule() -> None:
    assert parts_without_rule(PACKAGE) == set(), "give each of these a line in RULES"


def test_the_rules_name_only_parts_that_have_a_rule() -> None:
    assert {part for rule in RULES.values() for part in rule.parts} <= RULES.keys() | {PUBLIC}
    assert {part_of_file(file) for file in LAZY_EXCEPTIONS} <= RULES.keys()
    assert {part for parts in LAZY_EXCEPTIONS.values() for part in parts} <= RULES.keys()


def test_only_spark_imports_pyspark() -> None:
    assert {part for part, rule in RULES.items() if "pyspark" in rule.libraries} == {"spark"}


def test_the_layers_below_spark_have_no_cycle() -> None:
    order = ["errors", "text", "kernels", "graph", "plan", "codegen", "engine", "spark"]
    for place, part in enumerate(order):
        assert RULES[part].parts <= set(order[:place])


def test_tune_runs_streams_through_the_front_of_the_engine_only() -> None:
    inner = {each.module for each in imports(PACKAGE) if each.importer == "tune" and each.module in inside("engine")}
    assert inner <= TUNE_MAY_RUN_BY


def test_tune_is_imported_only_when_asked_for() -> None:
    program = "import sys, penstock; print(*(name for name in sys.modules if name.startswith('penstock.tune')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_imports_go_one_way() -> None:
    found = violations(imports(PACKAGE))
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_outside_imports_what_it_may(name: str) -> None:
    found = violations(imports(ROOT / name, name))
    assert not found, "\n" + "\n".join(found)


FORBIDDEN = {
    "a layer above": ("graph/node.py", "from penstock.plan import cut"),
    "relative": ("graph/node.py", "from ..engine.channel import Channel"),
    "relative, by name": ("plan/segment.py", "from .. import engine"),
    "by name from the package": ("plan/net.py", "from penstock import engine"),
    "for types only": ("plan/cut.py", "if TYPE_CHECKING:\n    import penstock.engine.node"),
    "inside a function": ("engine/node.py", "def f():\n    import penstock.spark"),
    "by import_module": ("plan/cut.py", "import importlib\nimportlib.import_module('penstock.spark')"),
    "pyspark outside spark": ("engine/node.py", "def f():\n    from pyspark.sql import SparkSession"),
    "pyspark in a command": ("cli/main.py", "import pyspark"),
    "arrow in a kernel": ("kernels/segment.py", "import pyarrow as pa"),
    "an application past the public name": ("examples/spike.py", "from penstock.graph import Stream"),
    "an excepted file at module level": ("graph/running.py", "import penstock.engine"),
    "an excepted file, not the excepted part": ("engine/account.py", "def f():\n    import penstock.spark"),
    "a library that is not declared": ("graph/node.py", "import scipy"),
}

ALLOWED = {
    "a layer below": ("engine/node.py", "from penstock.graph.types import Int"),
    "itself": ("kernels/segment.py", "from .compile import jit\nfrom penstock.kernels import keyed"),
    "the standard library": ("errors.py", "from __future__ import annotations\nimport os.path"),
    "the public name": ("examples/spike.py", "import penstock as ps\nfrom penstock import State"),
    "an exception": ("graph/running.py", "class S:\n    def show(self):\n        from penstock.report import picture"),
    "pyspark in spark": ("spark/driver/session.py", "from pyspark.sql import SparkSession"),
}


def write(package: Path, file: str, source: str) -> Path:
    (package / file).parent.mkdir(parents=True, exist_ok=True)
    (package / file).write_text(source, encoding="utf-8")
    return package


@pytest.mark.parametrize(("file", "source"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_forbidden_import_is_found(tmp_path: Path, file: str, source: str) -> None:
    found = violations(imports(write(tmp_path, file, source)))
    assert len(found) == 1
    assert found[0].startswith(f"{file}:{len(source.splitlines())}: {part_of_file(file)!r} may not import")


@pytest.mark.parametrize(("file", "source"), ALLOWED.values(), ids=ALLOWED)
def test_an_allowed_import_is_left_alone(tmp_path: Path, file: str, source: str) -> None:
    assert violations(imports(write(tmp_path, file, source))) == []


def test_a_part_without_a_rule_is_found(tmp_path: Path) -> None:
    assert parts_without_rule(write(tmp_path, "novelty/__init__.py", "")) == {"novelty"}
