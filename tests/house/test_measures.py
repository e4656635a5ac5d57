"""The house's measures: files and functions that can be read at once, no cycles, annotations, docstrings."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from types import FunctionType

import pytest
from tree import Function, Module, imports, modules

import hyperslab

MODULES = modules()
NAMES = {module.name for module in MODULES}

SAYS_NOTHING = {
    "abc",
    "adapter",
    "adapters",
    "base_utils",
    "common",
    "core",
    "factories",
    "factory",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "util",
    "utils",
}
UPWARD_ON_USE = (
    ("hyperslab.array.array", "hyperslab.web.notebook"),
    ("hyperslab.group.group", "hyperslab.web.notebook"),
    ("hyperslab.array", "hyperslab.bridges"),
    ("hyperslab.array.references", "hyperslab.group"),
    ("hyperslab.group", "hyperslab.bridges"),
)


@cache
def functions() -> list[tuple[str, Function]]:
    """Return every function of the package with its place: read by the tests, for to parse all takes seconds."""
    return [found for module in MODULES for found in module.functions]


def length(function: Function) -> int:
    """Lines from ``def`` to the last one."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_the_tree_is_found() -> None:
    assert {"hyperslab", "hyperslab.errors", "hyperslab.chunks.grid"} <= NAMES
    assert len(functions()) > 100


def test_files_can_be_read_at_once() -> None:
    assert {module.name: module.lines for module in MODULES if module.lines > 600} == {}


def test_functions_are_short() -> None:
    sizes = {place: length(node) for place, node in functions()}
    assert {place: size for place, size in sizes.items() if size > 60} == {}


def test_names_of_rooms_say_something() -> None:
    assert [name for name in NAMES if SAYS_NOTHING & set(name.split("."))] == []


def test_imports_make_no_cycle() -> None:
    graph = {module.name: _without_upward(module.name, imports(module, NAMES)) for module in MODULES}
    left = dict(graph)
    while free := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in free:
            del left[name]
    assert {name: sorted(needs & left.keys()) for name, needs in left.items()} == {}


def _without_upward(name: str, needs: set[str]) -> set[str]:
    def below(part: str, whole: str) -> bool:
        return part == whole or part.startswith(f"{whole}.")

    upward = [target for source, target in UPWARD_ON_USE if below(name, source)]
    return {need for need in needs if not any(below(need, target) for target in upward)}


def test_every_function_is_annotated() -> None:
    assert [place for place, node in functions() if not _annotated(node)] == []


def _annotated(function: Function) -> bool:
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    arguments += [extra for extra in (given.vararg, given.kwarg) if extra]
    bare = [argument.arg for argument in arguments if argument.annotation is None]
    return function.returns is not None and (not bare or (bare[0] in ("self", "cls", "mcs") and len(bare) == 1))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_what_is_public_is_documented(module: Module) -> None:
    assert ast.get_docstring(module.tree), "a room says what it is"
    public = [node for node in module.tree.body if isinstance(node, ast.ClassDef | Function)]
    assert [node.name for node in public if not node.name.startswith("_") and not _documented(node)] == []


def _documented(node: ast.ClassDef | Function) -> bool:
    if ast.get_docstring(node) or not isinstance(node, ast.ClassDef):
        return bool(ast.get_docstring(node)) or any(_is_overload(d) for d in node.decorator_list)
    methods = [inner for inner in node.body if isinstance(inner, Function)]
    return bool(methods) and all(ast.get_docstring(method) for method in methods)


def _is_overload(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "overload"


def test_the_face_is_small_and_documented_to_the_last_method() -> None:
    face = [name for name in hyperslab.__all__ if not name.startswith("__")]
    assert len(face) == len(set(face)) <= 40
    bare = []
    for name in face:
        value = getattr(hyperslab, name)
        bare += [] if value.__doc__ else [name]
        if isinstance(value, type):
            methods = {
                key: member for key, member in vars(value).items() if isinstance(member, FunctionType | property)
            }
            bare += [f"{name}.{key}" for key, member in methods.items() if key[0] != "_" and not member.__doc__]
    assert bare == []


PUBLIC_TWICE = {"Array", "Dimension"}
"""Names that the database's face shares with that of all formats (``hyperslab.database`` has DEKER's words)."""


def test_a_class_name_stands_once() -> None:
    names = Counter(node.name for module in MODULES for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))
    assert {name for name, times in names.items() if times > 1} <= PUBLIC_TWICE
