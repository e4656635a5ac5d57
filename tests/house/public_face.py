"""The public face as text, a line for each name and option: ``python tests/house/public_face.py`` writes it to
``faces/next.txt``. A release copies that file to one of its own name, which stays."""

from __future__ import annotations

import enum
import inspect
import pydoc
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click

FACES = Path(__file__).parent / "faces"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def list_lines() -> list[str]:
    """Return the lines of the face of this tree, sorted: what the pages of the reference name, and the commands."""
    names = {name for page in REFERENCE.glob("*.md") for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.M)}
    names |= {f"hyperslab.{name}" for name in import_module("hyperslab").__all__}
    found = {line for name in names for line in _lines_of(name, pydoc.locate(name))}
    return sorted(found | set(_lines_of_command("hyperslab", import_module("hyperslab.cli").main)))


def _lines_of(name: str, found: object) -> Iterator[str]:
    if inspect.isclass(found):
        yield from _lines_of_class(name, found)
    elif inspect.ismodule(found):
        for each, member in vars(found).items():
            if not each.startswith("_") and getattr(member, "__module__", None) == found.__name__:
                yield from _lines_of(f"{name}.{each}", member)
    else:
        assert found is not None, name
        yield f"{name}{_signature(found) if callable(found) else ''}"


def _lines_of_class(name: str, found: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in found.__bases__ if base is not object)
    is_error = issubclass(found, Exception)
    has_own_signature = not is_error and not issubclass(found, enum.Enum)
    yield f"{name}{_signature(found) if has_own_signature else ''}{f' is {bases}' if bases else ''}"
    if issubclass(found, enum.Enum):
        yield from (f"{name}.{member.name} = {member.value!r}" for member in found)
    for each in sorted(dir(found)):
        if each.startswith(("_", "test_")) or (
            (isinstance(found, enum.EnumMeta) or is_error) and each not in vars(found)
        ):
            continue
        owner = next((base for base in found.__mro__ if each in vars(base)), found)
        if not owner.__module__.startswith("hyperslab") or (
            isinstance(found, enum.EnumMeta) and each in found.__members__
        ):
            continue
        member = inspect.getattr_static(found, each)
        member = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        yield f"{name}.{each}{_signature(member) if inspect.isroutine(member) else ''}"


def _signature(found: object) -> str:
    """Return names, kinds and defaults of parameters; annotations may become more exact without anybody noticing."""
    try:
        signature = inspect.signature(found)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r"<([\w.]+)[^>]*>", r"<\1>", text)


def _lines_of_command(name: str, command: click.Command) -> Iterator[str]:
    arguments = " ".join(each.human_readable_name for each in command.params if isinstance(each, click.Argument))
    yield f"$ {name} {arguments}".rstrip()
    for option in command.params:
        if isinstance(option, click.Option):
            kind = "" if option.is_flag else f" {option.type.name}"
            yield f"$ {name} {', '.join([*option.opts, *option.secondary_opts])}{kind}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None, each
            yield from _lines_of_command(f"{name} {each}", found)


if __name__ == "__main__":
    FACES.mkdir(exist_ok=True)
    (FACES / "next.txt").write_text("\n".join(list_lines()) + "\n")
