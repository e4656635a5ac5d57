"""Count what the house is made of: ``python tests/house/figures.py`` prints a table, which ``make check`` shows.

The figures tell which way a change goes. Only a few of them are gates, and those stand in ``test_measures.py``.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator

from tree import Module, imports, modules


def count(package: list[Module]) -> dict[str, str]:
    """Return each measure of the package as text, in the order of the table."""
    lines = sum(module.lines for module in package)
    classes = [node for module in package for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    outside = [module for module in package if ".bridges" not in module.name]
    longest = max(package, key=lambda module: module.lines)
    names = Counter(node.name for node in classes if not node.name.startswith("_"))
    return {
        "lines": f"{lines:,}",
        "files": f"{len(package):,}",
        "longest file": f"{longest.lines} ({longest.name})",
        "classes": f"{len(classes):,}",
        "Protocols": str(sum(is_protocol(node) for node in classes)),
        "class names that exist twice": str(sum(times > 1 for times in names.values())),
        "modules with one importer": str(count_single_importers(package)),
        "Any per 1,000 lines, outside bridges": f"{per_thousand(outside, 'Any'):.1f}",
        "isinstance per 1,000 lines, outside bridges": f"{per_thousand(outside, 'isinstance'):.1f}",
        "hasattr, getattr with a default": str(sum(count_ability_tests(module) for module in package)),
        "comments, share of lines": f"{100 * sum(map(count_comment_lines, package)) / lines:.1f} %",
        "docstrings, share of lines": f"{100 * sum(map(count_docstring_lines, package)) / lines:.1f} %",
    }


def is_protocol(node: ast.ClassDef) -> bool:
    """Return True for a class whose bases name ``Protocol``."""
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def count_single_importers(package: list[Module]) -> int:
    """Count the modules that exactly one other module imports; the ``__init__`` of a folder is not one."""
    known = {module.name for module in package}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for module in package:
        for name in imports(module, known):
            importers[name].add(module.name)
    return sum(len(importers[module.name]) == 1 for module in package if not module.is_package)


def per_thousand(package: list[Module], name: str) -> float:
    """Return how often a name stands in the code, for each thousand lines; its import does not count."""
    found = sum(isinstance(node, ast.Name) and node.id == name for module in package for node in ast.walk(module.tree))
    return 1000 * found / sum(module.lines for module in package)


def count_ability_tests(module: Module) -> int:
    """Count the calls of ``hasattr``, and of ``getattr`` with a default."""
    calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return sum(call.func.id == "hasattr" or (call.func.id == "getattr" and len(call.args) == 3) for call in calls)


def count_comment_lines(module: Module) -> int:
    """Count the lines on which a comment stands, alone or behind code."""
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return len({token.start[0] for token in tokens if token.type == tokenize.COMMENT})


def count_docstring_lines(module: Module) -> int:
    """Count the lines of docstrings, those below constants and fields among them."""
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in _docstrings(module.tree))


def _docstrings(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


if __name__ == "__main__":
    for measure, value in count(modules()).items():
        print(f"{measure:<46}{value:>12}")
