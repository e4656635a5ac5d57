"""The source tree as the house tests see it: every module of the package, parsed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """The file as written."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def lines(self) -> int:
        """How long the file is."""
        return len(self.text.splitlines())

    @cached_property
    def tree(self) -> ast.Module:
        """The file parsed."""
        return ast.parse(self.text, str(self.path))

    @property
    def is_package(self) -> bool:
        """Whether the file is the ``__init__`` of a folder."""
        return self.path.name == "__init__.py"

    @cached_property
    def functions(self) -> list[tuple[str, Function]]:
        """Every function and method, nested ones too, under ``module:line name``."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        return [(f"{self.name}:{node.lineno} {node.name}", node) for node in found]


def modules() -> list[Module]:
    """Every module of the package."""
    found = []
    for path in sorted((SOURCE / "hyperslab").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name, path))
    return found


def imports(module: Module, known: set[str]) -> set[str]:
    """Names of the package's modules that this one imports anywhere, also inside a function."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            deeper = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (deeper & known) or {node.module}
            if deeper - known:
                found.add(node.module)
    return found & known - {module.name}
