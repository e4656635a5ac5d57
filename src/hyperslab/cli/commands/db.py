"""``hyperslab db``: the objects of a database, and collections of arrays: listed, looked at, put, removed, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from typing import Any

import click

from hyperslab import api
from hyperslab.cli.arguments import (
    find_array,
    open_dataset,
    parse_selections,
    selection_key,
    selection_option,
    storage_option,
)
from hyperslab.cli.commands.get import check_ending, give_out, write
from hyperslab.cli.commands.info import cut_text
from hyperslab.cli.databases import (
    DatabaseObjects,
    array_rows,
    attribute_option,
    collection_rows,
    describe_array,
    describe_collection,
    dimension_option,
    find_collection,
    find_database_array,
    index_rows,
    is_server,
    open_client,
    open_objects,
    parse_age,
    print_problems,
    schema_rows,
    table,
    version_rows,
)
from hyperslab.cli.exit_codes import verbosity_options
from hyperslab.cli.output import echo_rows, format_columns, json_option, print_json, print_remark
from hyperslab.conversion import convert
from hyperslab.conversion.labelled_part import read_part
from hyperslab.database import Collection
from hyperslab.database.typed_conditions import parse_conditions
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.integrity import check as check_dataset
from hyperslab.model.amounts import size_text


def refuse_server(url: str, verb: str) -> None:
    """Raise Unsupported for a database server, which holds objects and no collections."""
    if is_server(url):
        raise Unsupported(f"db {verb} of a server", url=url, remedy="give a folder, or a URL, that holds collections")


def show_arrays(
    url: str,
    name: str,
    conditions: tuple[str, ...],
    storage: dict[str, object] | None,
    as_json: bool,
    *,
    verb: str,
    order: str | None,
    limit: int | None,
) -> None:
    """Print the arrays of a collection that meet conditions, one a line."""
    refuse_server(url, verb)
    with open_client(url, storage) as client:
        collection = find_collection(client, name)
        wanted = parse_conditions(collection, conditions)
        found = (describe_array(array) for array in collection.query(wanted, order=order, limit=limit))
        if as_json:
            print_json("db-query", url=url, collection=name, arrays=list(found))
        else:
            echo_rows(found, array_rows, "no arrays")
        _tell_unreadable(url, collection)


def _tell_unreadable(url: str, collection: Collection) -> None:
    if lost := collection.unreadable:
        arrays = "array that cannot be read is" if lost == 1 else "arrays that cannot be read are"
        print_remark(f"{lost} {arrays} left out of {collection.name}: hyperslab check {url} tells why")


class _Verbs(click.Group):
    """Listed in the order in which they are written down, each with a whole sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(300)) for name, one in self.commands.items()])


@click.group("db", cls=_Verbs, epilog="Example: hyperslab db query weather.db temperature station=KEF")
def db_command() -> None:
    """Collections of arrays in a folder or at a URL, and objects in MongoDB: mongodb://host/database, ?collection= for
    others than xarray, #name or #id for one."""


def _verb(name: str, example: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command below ``db`` with the options that all commands take."""

    def decorate(function: Callable[..., object]) -> click.Command:
        made: click.Command = db_command.command(name, epilog=f"Example: hyperslab db {name} {example}")(
            storage_option()(json_option(function))
        )
        made.params.extend(verbosity_options())
        return made

    return decorate


@contextmanager
def _objects(url: str, storage: dict[str, object] | None) -> Iterator[DatabaseObjects]:
    """Open the objects at a URL; errors say where they are."""
    objects = open_objects(url, storage)
    try:
        with objects.errors():
            yield objects
    except HyperslabError as error:
        raise error.locate(url=objects.url) from error.__cause__


@_verb("list", "weather.db")
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
    storage_option: dict[str, object] | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """The collections at URL; of a server the objects that have these attributes, dimensions, variables and name."""
    if not is_server(url):
        if attrs or dims or newest or any(wanted[name] for name in ("names", "name", "since", "until")):
            raise Invalid("options of db list that are for objects of a server", remedy="choose arrays with db query")
        with open_client(url, storage_option) as client:
            shown = list(islice(client, wanted["limit"]))
            facts = [describe_collection(collection) for collection in shown]
            for collection in shown:
                _tell_unreadable(url, collection)
        if as_json:
            print_json("db-list", url=url, collections=facts)
        else:
            echo_rows(facts, collection_rows, "no collections")
        return
    with _objects(url, storage_option) as objects:
        objects.refuse_object("list")
        infos = objects.find(attrs=attrs, dims=dims, order="-created" if newest else "created", **wanted)
        if as_json:
            print_json("db-list", url=objects.url, objects=[asdict(info) for info in infos])
            return
        echo_rows(infos, table, "no objects")


@_verb("schema", "weather.db temperature")
@click.argument("url")
@click.argument("collection")
def schema(url: str, collection: str, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """What the arrays of COLLECTION have in common: dimensions with their labels, attributes, type, fill value."""
    refuse_server(url, "schema")
    with open_client(url, storage_option) as client:
        described = find_collection(client, collection)
    if as_json:
        print_json("db-schema", url=url, collection=described.as_dict)
        return
    click.echo("\n\n".join(format_columns(rows) for rows in schema_rows(described)))


_order = click.option("--order", metavar="ATTR", help="By this attribute; -ATTR: from the largest value down.")
_limit = click.option("--limit", type=click.IntRange(0), help="At most so many.")


@_verb("arrays", "weather.db temperature --limit 10")
@click.argument("url")
@click.argument("collection")
@_order
@_limit
def arrays(
    url: str,
    collection: str,
    order: str | None,
    limit: int | None,
    storage_option: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """The arrays of COLLECTION with their ids and attributes, one a line, in the order of their keys."""
    show_arrays(url, collection, (), storage_option, as_json, verb="arrays", order=order, limit=limit)


@_verb("query", "weather.db temperature 'dt>=2023-01-01' 'dt<=2023-01-31' station^=K --order -dt")
@click.argument("url")
@click.argument("collection")
@click.argument("conditions", nargs=-1, metavar="[CONDITION]...")
@_order
@_limit
def query(
    url: str,
    collection: str,
    conditions: tuple[str, ...],
    order: str | None,
    limit: int | None,
    storage_option: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """The arrays of COLLECTION whose attributes meet all CONDITIONs, one a line.

    ATTR=VALUE (given several times: any of them), ATTR>=VALUE, ATTR<=VALUE, ATTR^=BEGINNING of a text, ATTR:=JSON
    (null: not set).
    """
    show_arrays(url, collection, conditions, storage_option, as_json, verb="query", order=order, limit=limit)


@_verb("info", "'mongodb://localhost/climate#temperature'")
@click.argument("url")
def info(url: str, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """What one object of a server holds; without #NAME how many objects and bytes the collection holds."""
    with _objects(url, storage_option) as objects:
        facts = objects.totals() if objects.object is None else objects.facts()
    if as_json:
        print_json("db-info", url=objects.url, **facts)
        return
    variables = facts.pop("variables", ())
    click.echo(format_columns([(name.replace("_", " "), _fact_text(name, value)) for name, value in facts.items()]))
    if variables:
        rows = [("name", "dtype", "dimensions", "chunks", "stored")]
        for one in variables:
            sizes = zip(one["dims"], one["shape"], strict=False)
            dims = ", ".join(f"{dim}: {size}" for dim, size in sizes) or "(one cell)"
            rows.append((one["name"], one["dtype"], dims, cut_text(one["chunks"]), one["stored"]))
        click.echo(format_columns(rows))


def _fact_text(name: str, value: Any) -> str:
    if name.startswith("nbytes"):
        return size_text(value)
    match value:
        case dict():
            return ", ".join(f"{key}: {item}" for key, item in value.items())
        case list():
            return ", ".join(map(str, value))
    return "" if value is None else str(value)


@_verb("get", "weather.db temperature dt=2023-01-01 -s lat=50.0 -o lat50.csv")
@click.argument("url")
@click.argument("wanted", nargs=-1, metavar="[COLLECTION [ID|CONDITION]...]")
@selection_option
@click.option("--nearest", is_flag=True, help="Take the neighbour of a label that no cell has.")
@click.option("-o", "--output", help="A new file (.npy, .csv, .json, .nc, .zarr); of an object also any other dataset.")
@click.option("--overwrite", is_flag=True, help="Replace the target of an object, once the new one is complete.")
@click.option("--allow-loss", is_flag=True, help="Of an object write what the target can hold, leave out the rest.")
def get(
    url: str,
    wanted: tuple[str, ...],
    selections: tuple[str, ...],
    nearest: bool,
    output: str | None,
    overwrite: bool,
    allow_loss: bool,
    storage_option: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """A part of the one array of COLLECTION that has this id, or meets the conditions (see db query); or one object.

    Of an array -s chooses a part, which goes to stdout without -o. Of an object -o says where all of it goes.
    """
    if not is_server(url):
        if overwrite or allow_loss:
            raise Invalid("options of db get that are for objects of a server", remedy="write the part to a new file")
        if not wanted:
            raise Invalid("db get is about one array", url=url, remedy="name its collection, and its id or ATTR=VALUE")
        check_ending(output)
        with open_client(url, storage_option) as client:
            array = find_database_array(find_collection(client, wanted[0]), wanted[1:])
            path = f"{wanted[0]}/{array.id}"
        cells = api.open_array(url, path=path, storage_options=storage_option)
        key = selection_key(cells, parse_selections(selections), nearest)
        part = read_part(cells, cells, key, decoded=False)
        give_out("db-get", part, path, url, nearest=nearest, output=output, as_json=as_json)
        return
    if wanted or selections or nearest:
        raise Invalid("db get writes objects of a server whole", remedy="hyperslab get URL PATH -s ... takes a part")
    if output is None:
        raise Invalid("where the object goes is not said", remedy="give -o")
    with _objects(url, storage_option) as objects:
        objects.needed("get")
    if output.endswith(".npy"):
        root = open_dataset(url, storage_option)
        cells = find_array(root, "")
        write(read_part(root, cells, (slice(None),) * cells.ndim, decoded=False), output, objects.url)
        report: dict[str, Any] = {"arrays": 1}
    else:
        sides = (storage_option, None)
        report = asdict(convert(url, output, overwrite=overwrite, allow_loss=allow_loss, storage_options=sides))
    if as_json:
        print_json("db-get", url=objects.url, output=output, **report)
    else:
        print_remark(f"{objects.url} is in {output}")


@_verb("put", "air.nc 'mongodb://localhost/climate#air'")
@click.argument("source")
@click.argument("url")
@click.option("--overwrite", is_flag=True, help="Replace the object of this name, once the new one is complete.")
@click.option("--allow-loss", is_flag=True, help="Store what a document can hold, leave out the rest.")
def put(
    source: str, url: str, overwrite: bool, allow_loss: bool, storage_option: dict[str, Any] | None, as_json: bool
) -> None:
    """The dataset SOURCE as one object of a server, with the name that URL has behind #. It is found once it is
    complete."""
    with _objects(url, storage_option) as objects:
        objects.needed("put")
    sides = (None, storage_option)
    report = asdict(convert(source, url, overwrite=overwrite, allow_loss=allow_loss, storage_options=sides))
    if as_json:
        print_json("db-put", **report)
    else:
        print_remark(f"{source} is in {objects.url}")


@_verb("delete", "'mongodb://localhost/climate#old' --yes")
@click.argument("url")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(url: str, yes: bool, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """Remove one object of a server with all its chunks, once you have said yes."""
    with _objects(url, storage_option) as objects:
        objects.needed("delete")
        about = objects.describe()
        name = f"{about.name} " if about.name else ""
        question = f"Remove the {about.kind} {name}({about.id}, {size_text(about.nbytes)} of cells)?"
        if not yes and not _is_confirmed(question, objects.url):
            print_remark("nothing was removed")
            return
        documents = objects.delete(about.id)
    if as_json:
        print_json("db-delete", url=objects.url, id=about.id, documents=documents)
    else:
        print_remark(f"{documents} documents were removed")


def _is_confirmed(question: str, url: str) -> bool:
    """Ask, and return the answer. Invalid where nobody can answer."""
    try:
        return click.confirm(question, err=True)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError):
            click.echo(err=True)
            raise Invalid("nobody answers: nothing was removed", url=url, remedy="say --yes") from None
        raise


@_verb("expire", "mongodb://localhost/climate --older-than 90d --keep-newest 3 --dry-run")
@click.argument("url")
@click.option("--older-than", callback=parse_age, metavar="AGE", help="Made longer ago: 90d, 12h, 30m, 2w, or seconds.")
@click.option("--keep-newest", type=click.IntRange(1), metavar="N", help="Of each name keep the newest N.")
@attribute_option
@dimension_option
@click.option("--variable", "names", multiple=True, metavar="NAME", help="Only objects with this variable; repeatable.")
@click.option("--name", help="Only objects of this name.")
@click.option("--until", metavar="DATE", help="Only objects made before (UTC).")
@click.option("--dry-run", is_flag=True, help="Remove nothing; show what would be removed.")
def expire(url: str, dry_run: bool, storage_option: dict[str, object] | None, as_json: bool, **wanted: Any) -> None:
    """Remove old objects of a server with their chunks: by their age, by the number of newer ones, or by both.

    Nothing is asked, so that cron can run it; --dry-run shows what would be removed.
    """
    with _objects(url, storage_option) as objects:
        objects.refuse_object("expire")
        infos = objects.expire(dry_run=dry_run, **wanted)
        if as_json:
            print_json("db-expire", url=objects.url, applied=not dry_run, objects=[asdict(info) for info in infos])
            return
        echo_rows(infos, table, "nothing to remove")
        if dry_run:
            print_remark("nothing was removed: without --dry-run these are")


@_verb("versions", "'mongodb://localhost/climate#air'")
@click.argument("url")
def versions(url: str, storage_option: dict[str, object] | None, as_json: bool) -> None:
    """The older versions of one object of a server that are kept, the oldest first, and the object itself.

    Each can be read under its id: hyperslab info 'mongodb://localhost/climate#ID'.
    """
    with _objects(url, storage_option) as objects:
        objects.needed("versions")
        found = objects.versions()
    if as_json:
        print_json("db-versions", url=objects.url, objects=[asdict(info) for info in found])
    else:
        click.echo(format_columns(version_rows(found)))


@_verb("compact", "'mongodb://localhost/climate#air' --keep-old 2h")
@click.argument("url")
@click.option("--chunk-bytes", type=click.IntRange(1), metavar="N", help="Join chunks up to N bytes (4 MiB).")
@click.option("--keep-old", callback=parse_age, metavar="AGE", help="Keep the old chunks for their readers: 1h, 2d.")
def compact(
    url: str,
    chunk_bytes: int | None,
    keep_old: float | None,
    storage_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Join the small chunks of one object of a server, as many appends leave them.

    A new object with the same cells takes its place and name; the old one stays for an hour, so that its readers read
    on, and is removed by hyperslab db gc then.
    """
    with _objects(url, storage_option) as objects:
        objects.needed("compact")
        old = objects.id
        new = objects.compact(chunk_bytes, keep_old)
    if as_json:
        print_json("db-compact", url=objects.url, id=new, old=old)
    else:
        print_remark("there was nothing to join" if new == old else f"the object is {new} now")


@_verb("check", "weather.db --deep")
@click.argument("url")
@click.option("--deep", is_flag=True, help="Read every cell too; of a server, decode every sparse chunk.")
def check(url: str, deep: bool, storage_option: dict[str, Any] | None, as_json: bool) -> int:
    """Every problem of the collections or objects at URL, or of one object, one a line; nothing when all is well.

    The exit code is 1 when there are problems. Nothing is changed: hyperslab repair mends.
    """
    if not is_server(url):
        report = check_dataset(url, deep, storage_options=storage_option)
        return print_problems(url, report, deep=deep, as_json=as_json)
    with _objects(url, storage_option) as objects:
        return print_problems(objects.url, objects.problems(deep), deep=deep, as_json=as_json)


@_verb("relink", "weather.db temperature")
@click.argument("url")
@click.argument("collection", required=False)
@click.option("--relative/--absolute", default=None, help="Links that stay right when the store moves, or the peer's.")
def relink(
    url: str, collection: str | None, relative: bool | None, storage_option: dict[str, object] | None, as_json: bool
) -> None:
    """Make the links of collections in DEKER's layout, or of one, lead to where its files are after a move or copy.

    Without an option they stay of the kind that they are.
    """
    refuse_server(url, "relink")
    with open_client(url, storage_option, writable=True) as client:
        if collection:
            names = [find_collection(client, collection).name]
        else:
            names = [each.name for each in client if each.layout == "deker"]
        for name in names:
            client.relink(name, relative=relative)
    if as_json:
        print_json("db-relink", url=url, collections=names)
    elif names:
        print_remark(f"the links of {', '.join(names)} lead to {url}")
    else:
        print_remark(f"no collection of {url} has links: they are those of DEKER's layout")


@_verb("index", "mongodb://localhost/climate --attr station")
@click.argument("url")
@click.option("--attr", "attrs", multiple=True, metavar="NAME", help="Also by this attribute; repeatable.")
@click.option("--positional", is_flag=True, help="Also by the place of a chunk: one key finds one chunk.")
def index(
    url: str, attrs: tuple[str, ...], positional: bool, storage_option: dict[str, object] | None, as_json: bool
) -> None:
    """Make the indexes that look-ups on a server need, where they are missing, and list them.

    hyperslab doctor URL lists them and makes none. Others may read and write meanwhile.
    """
    with _objects(url, storage_option) as objects:
        objects.refuse_object("index")
        objects.make_indexes(attrs, positional=positional)
        states = objects.indexes()
    if as_json:
        print_json("db-index", url=objects.url, indexes=[asdict(state) for state in states])
    else:
        click.echo(format_columns(index_rows(states)))


@_verb("gc", "mongodb://localhost/climate --apply")
@click.argument("url")
@click.option("--apply", is_flag=True, help="Remove; without it only what would be removed is shown.")
@click.option(
    "--age", type=float, default=3600, show_default=True, metavar="SECONDS", help="Leave what is younger; 0: nothing."
)
def gc(url: str, apply: bool, age: float, storage_option: dict[str, object] | None, as_json: bool) -> None:
    """What belongs to nothing on a server: chunks without an object, objects never finished, copies of documents.

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
    print_remark(f"{total} removed" if apply else f"{total}; --apply removes them" if found else "nothing to remove")
