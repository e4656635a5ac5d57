"""``hyperslab db``: the objects of a database, listed, looked at, put, removed and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from typing import Any

import click

from hyperslab.checks.report import as_line
from hyperslab.cli.commands.get import write
from hyperslab.cli.databases import Objects, attribute_option, dimension_option, open_objects, table
from hyperslab.cli.describing import cut_text
from hyperslab.cli.failing import manners
from hyperslab.cli.labelled import take
from hyperslab.cli.opening import find_array, open_dataset
from hyperslab.cli.output import columns, json_option, print_json, say, size_text
from hyperslab.cli.storage import storage_option
from hyperslab.conversion import convert
from hyperslab.errors import HyperslabError, Invalid

_AT_ONCE = 1000


class _Verbs(click.Group):
    """Listed in the order in which they are written down."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names."""
        return list(self.commands)


@click.group("db", cls=_Verbs, epilog="Example: hyperslab db list mongodb://localhost/climate --attr station=KEF")
def command() -> None:
    """The objects in a database: mongodb://host/database, ?collection= for others than xarray, #name or #id for one."""


def _verb(name: str, example: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command below ``db`` with the options that all commands take."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        made: click.Command = command.command(name, epilog=f"Example: hyperslab db {name} {example}")(
            storage_option()(json_option(function))
        )
        made.params.extend(manners())
        return made

    return decorate


@contextmanager
def _objects(url: str, storage: dict[str, Any] | None) -> Iterator[Objects]:
    """The objects at a URL; errors say where they are."""
    objects = open_objects(url, storage)
    try:
        with objects.errors():
            yield objects
    except HyperslabError as error:
        raise error.locate(url=objects.url) from error.__cause__


@_verb("list", "mongodb://localhost/climate --dim time --since 2026-01-01 --json")
@click.argument("url")
@attribute_option
@dimension_option
@click.option("--variable", "names", multiple=True, metavar="NAME", help="Only objects with this variable; repeatable.")
@click.option("--name", help="Only objects of this name.")
@click.option("--since", metavar="DATE", help="Only objects made then or later (UTC).")
@click.option("--until", metavar="DATE", help="Only objects made before (UTC).")
@click.option("--limit", type=click.IntRange(0), help="At most so many.")
@click.option("--newest", is_flag=True, help="The newest first; else the oldest.")
def list_objects(
    url: str,
    attrs: dict[str, Any],
    dims: dict[str, Any],
    newest: bool,
    storage_option: dict[str, Any] | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """The objects at URL that have these attributes, dimensions, variables and name, one a line."""
    with _objects(url, storage_option) as objects:
        objects.refuse_object("list")
        infos = objects.find(attrs=attrs, dims=dims, order="-created" if newest else "created", **wanted)
        if as_json:
            print_json("db-list", url=objects.url, objects=[asdict(info) for info in infos])
            return
        head = True
        while some := list(islice(infos, _AT_ONCE)):
            click.echo(columns(table(some, head=head)))
            head = False
        if head:
            say("no objects")


@_verb("info", "'mongodb://localhost/climate#temperature'")
@click.argument("url")
def info(url: str, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """What one object holds; without #NAME how many objects and bytes the collection holds."""
    with _objects(url, storage_option) as objects:
        facts = objects.totals() if objects.object is None else objects.facts()
    if as_json:
        print_json("db-info", url=objects.url, **facts)
        return
    rows = [(name.replace("_", " "), _told(name, value)) for name, value in facts.items() if name != "variables"]
    click.echo(columns(rows))
    if facts.get("variables"):
        click.echo(columns([("name", "dtype", "dimensions", "chunks", "stored"), *map(_row, facts["variables"])]))


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    dims = ", ".join(f"{dim}: {size}" for dim, size in zip(one["dims"], one["shape"], strict=False)) or "(one cell)"
    return one["name"], one["dtype"], dims, cut_text(one["chunks"]), one["stored"]


def _told(name: str, value: Any) -> str:
    if name.startswith("nbytes"):
        return size_text(value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


@_verb("get", "'mongodb://localhost/climate#temperature' -o temperature.nc")
@click.argument("url")
@click.option("-o", "--output", required=True, help="A new dataset of any format, or an .npy file of the only array.")
@click.option("--overwrite", is_flag=True, help="Replace the target, once the new one is complete.")
@click.option("--allow-loss", is_flag=True, help="Write what the target can hold, leave out the rest.")
def get(
    url: str, output: str, overwrite: bool, allow_loss: bool, storage_option: dict[str, Any] | None, as_json: bool
) -> None:
    """One object into a file or folder; the format follows from its name. What it cannot hold is said first."""
    with _objects(url, storage_option) as objects:
        objects.needed("get")
    if output.endswith(".npy"):
        root = open_dataset(url, storage_option)
        array = find_array(root, "")
        write(take(root, array, (slice(None),) * array.ndim, decoded=False), output, objects.url)
        report: dict[str, Any] = {"arrays": 1}
    else:
        options: dict[str, Any] = {"storage_options": (storage_option, None)}
        report = asdict(convert(url, output, overwrite=overwrite, allow_loss=allow_loss, **options))
    if as_json:
        print_json("db-get", url=objects.url, output=output, **report)
    else:
        say(f"{objects.url} is in {output}")


@_verb("put", "air.nc 'mongodb://localhost/climate#air'")
@click.argument("source")
@click.argument("url")
@click.option("--overwrite", is_flag=True, help="Replace the object of this name, once the new one is complete.")
@click.option("--allow-loss", is_flag=True, help="Store what a document can hold, leave out the rest.")
def put(
    source: str, url: str, overwrite: bool, allow_loss: bool, storage_option: dict[str, Any] | None, as_json: bool
) -> None:
    """The dataset SOURCE as one object, with the name that URL has behind #. It is found once it is complete."""
    with _objects(url, storage_option) as objects:
        objects.needed("put")
    options: dict[str, Any] = {"storage_options": (None, storage_option)}
    report = asdict(convert(source, url, overwrite=overwrite, allow_loss=allow_loss, **options))
    if as_json:
        print_json("db-put", **report)
    else:
        say(f"{source} is in {objects.url}")


@_verb("delete", "'mongodb://localhost/climate#old' --yes")
@click.argument("url")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(url: str, yes: bool, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """Remove one object with all its chunks, once you have said yes."""
    with _objects(url, storage_option) as objects:
        objects.needed("delete")
        about = objects.describe()
        question = f"Remove the {about.kind} {about.name or ''} ({about.id}, {size_text(about.nbytes)} of cells)?"
        if not yes and not _is_confirmed(question.replace("  ", " "), objects.url):
            say("nothing was removed")
            return
        documents = objects.delete(about.id)
    if as_json:
        print_json("db-delete", url=objects.url, id=about.id, documents=documents)
    else:
        say(f"{documents} documents were removed")


def _is_confirmed(question: str, url: str) -> bool:
    """What is answered. Invalid where nobody can answer."""
    try:
        return click.confirm(question, err=True)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError):
            click.echo(err=True)
            raise Invalid("nobody answers: nothing was removed", url=url, remedy="say --yes") from None
        raise


@_verb("check", "mongodb://localhost/climate --deep")
@click.argument("url")
@click.option("--deep", is_flag=True, help="Decode every sparse chunk; else documents and their bytes are counted.")
def check(url: str, deep: bool, storage_option: dict[str, Any] | None, as_json: bool) -> int:
    """Every problem of the objects at URL, or of one of them, one a line; nothing when all is well.

    The exit code is 1 when there are problems. Nothing is changed: hyperslab repair mends.
    """
    with _objects(url, storage_option) as objects:
        problems = objects.problems(deep)
        if as_json:
            found = [asdict(problem) for problem in problems]
            print_json("db-check", url=objects.url, deep=deep, sound=not found, problems=found)
            return int(bool(found))
        count = 0
        for problem in problems:
            click.echo(as_line(problem))
            count += 1
    return int(bool(count))


@_verb("gc", "mongodb://localhost/climate --apply")
@click.argument("url")
@click.option("--apply", is_flag=True, help="Remove; without it only what would be removed is shown.")
@click.option(
    "--age", type=float, default=3600, show_default=True, metavar="SECONDS", help="Leave what is younger; 0: nothing."
)
def gc(url: str, apply: bool, age: float, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """What belongs to nothing: chunks without an object, objects that were never finished, copies of documents.

    With --apply it is removed. With --age 0 nobody may be writing.
    """
    with _objects(url, storage_option) as objects:
        objects.refuse_object("gc")
        if not age >= 0:
            raise Invalid(f"--age {age}", remedy="give seconds of at least 0")
        found = objects.collect(age, apply)
    if as_json:
        rows = [{"kind": one.kind, "id": one.id, "documents": one.documents, "nbytes": one.nbytes} for one in found]
        print_json("db-gc", url=objects.url, applied=apply, garbage=rows)
        return
    for one in found:
        click.echo(f"{one.id}: {one.kind}: {one.message} ({size_text(one.nbytes)})")
    total = f"{sum(one.documents for one in found)} documents, {size_text(sum(one.nbytes for one in found))}"
    say(f"{total} removed" if apply else f"{total}; --apply removes them" if found else "nothing to remove")
