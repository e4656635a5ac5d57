"""``hyperslab db``: the objects of a database, and collections of arrays: listed, looked at, put, removed, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from typing import Any

import click

from hyperslab import api
from hyperslab.cli.arguments import SelectionOptions, find_array, find_cells, open_dataset, parse_selections
from hyperslab.cli.commands.db_collections import (
    add_attribute,
    arrays,
    delete_collection,
    expire_versions,
    query,
    relink,
    remove_attribute,
    rename_attribute,
    schema,
    show_changes,
)
from hyperslab.cli.commands.get import check_ending, give_out, print_other_labels, write
from hyperslab.cli.commands.info import cut_text
from hyperslab.cli.database_objects import DatabaseObjects, is_server, open_objects, refuse_collection
from hyperslab.cli.database_options import attribute_option, dimension_option, is_confirmed, parse_age, verb
from hyperslab.cli.database_rows import (
    collection_rows,
    describe_collection,
    index_rows,
    print_index_states,
    print_problems,
    table,
    version_rows,
)
from hyperslab.cli.exit_codes import show_help_without
from hyperslab.cli.open_collections import find_collection, find_database_array, open_client, tell_unreadable
from hyperslab.cli.options import at_option, complete_place, selection_options, url_argument
from hyperslab.cli.output import echo_rows, format_columns, print_json, print_remark
from hyperslab.conversion.labelled_part import open_part
from hyperslab.conversion.pipeline import convert
from hyperslab.errors import Invalid
from hyperslab.integrity.survey import check as check_dataset
from hyperslab.model.amounts import parse_size, size_text


class _Verbs(click.Group):
    """Listed in the order in which they are written down, each with a whole sentence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments that are left; without any, print the help as what is wrong."""
        show_help_without(args, ctx)
        return super().parse_args(ctx, args)

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


@contextmanager
def _objects(url: str, storage: dict[str, object] | None) -> Iterator[DatabaseObjects]:
    """Open the objects at a URL; errors say where they are."""
    objects = open_objects(url, storage)
    with objects.errors():
        yield objects


def _refuse_options(command: str, options: Mapping[str, object], remedy: str) -> None:
    """Raise Invalid for those of the ``options`` that have a value: they are for objects of a server alone."""
    names = ", ".join(name for name, value in options.items() if value)
    if names:
        raise Invalid(f"{command}: {names} for objects of a server alone", remedy=remedy)


@verb("list", "weather.db")
@url_argument
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
    attrs: list[str],
    dims: dict[str, Any],
    newest: bool,
    storage_option: dict[str, object] | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """The collections at URL; of a server the objects that have these attributes, dimensions, variables and name."""
    if not is_server(url):
        options = {"--attr": attrs, "--dim": dims, "--variable": wanted["names"], "--name": wanted["name"]}
        options |= {"--since": wanted["since"], "--until": wanted["until"], "--newest": newest}
        _refuse_options("db list", options, "choose arrays with db query")
        with open_client(url, storage_option) as client:
            shown = list(islice(client, wanted["limit"]))
            facts = [describe_collection(collection) for collection in shown]
            for collection in shown:
                tell_unreadable(url, collection)
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


@verb("info", "'mongodb://localhost/climate#temperature'")
@url_argument
def info(url: str, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """Show one object of a server; without #NAME how many objects and bytes the collection holds."""
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


@verb("get", "weather.db temperature dt=2023-01-01 -s lat=50.0 -o lat50.csv")
@url_argument
@click.argument("wanted", nargs=-1, metavar="[COLLECTION [ID|CONDITION]...]")
@selection_options
@at_option("the collection")
@click.option("-o", "--output", help="A new file (.npy, .csv, .json, .nc, .zarr); of an object also any other dataset.")
@click.option("--overwrite", is_flag=True, help="Replace the target of an object, once the new one is complete.")
@click.option("--allow-loss", is_flag=True, help="Of an object write what the target can hold, leave out the rest.")
def get(
    url: str,
    wanted: tuple[str, ...],
    selections: tuple[str, ...],
    manner: SelectionOptions,
    at: str | None,
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
        options = {"--overwrite": overwrite, "--allow-loss": allow_loss}
        _refuse_options("db get", options, "write the part of an array to a new file")
        if not wanted:
            raise Invalid("db get is about one array", url=url, remedy="name its collection, and its id or ATTR=VALUE")
        check_ending(output)
        with open_client(url, storage_option) as client:
            array = find_database_array(find_collection(client, wanted[0], at), wanted[1:])
            path = f"{wanted[0]}/{array.id}"
        cells = api.open_array(url, path=path, storage_options=storage_option, at=at)
        selection = parse_selections(selections)
        selector = find_cells([cells], selection, manner)
        part = open_part(cells, cells, selector.key(cells), decoded=False, shifted=selector.shifts(cells))
        print_other_labels(part, selection)
        give_out("db-get", part, path, url, output=output, as_json=as_json)
        return
    if wanted or selections or manner != SelectionOptions() or at:
        raise Invalid("db get writes objects of a server whole", remedy="hyperslab get URL PATH -s ... takes a part")
    with _objects(url, storage_option) as objects:
        objects.needed("get")
    if output is None:
        message, remedy = "where the object goes is not said", "give -o NAME.zarr or another ending"
        raise Invalid(message, url=objects.url, remedy=remedy)
    if output.endswith(".npy"):
        root = open_dataset(url, storage_option)
        cells = find_array(root, "")
        write(open_part(root, cells, (slice(None),) * cells.ndim, decoded=False), output, objects.url)
        report: dict[str, Any] = {"arrays": 1}
    else:
        sides = (storage_option, None)
        report = asdict(convert(url, output, overwrite=overwrite, allow_loss=allow_loss, storage_options=sides))
    if as_json:
        print_json("db-get", url=objects.url, output=output, **report)
    else:
        print_remark(f"{objects.url} is in {output}")


@verb("put", "air.nc 'mongodb://localhost/climate#air'")
@click.argument("source", shell_complete=complete_place)
@url_argument
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


@verb("delete", "weather.db temperature 'dt<=2020-12-31' --yes")
@url_argument
@click.argument("wanted", nargs=-1, metavar="[COLLECTION [ID|CONDITION]...]")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(url: str, wanted: tuple[str, ...], yes: bool, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """Remove COLLECTION, or its arrays of this ID or with these CONDITIONs; or one object of a server with its chunks.

    You are asked before.
    """
    if not is_server(url):
        delete_collection(url, wanted, storage_option, yes=yes, as_json=as_json)
        return
    refuse_collection(wanted, "name the object behind #")
    with _objects(url, storage_option) as objects:
        from hyperslab.formats.mongo.objects import delete_object
        from hyperslab.formats.mongo.search import describe_object

        objects.needed("delete")
        about = describe_object(objects.meta, objects.id)
        name = f"{about.name} " if about.name else ""
        question = f"Remove the {about.kind} {name}({about.id}, {size_text(about.nbytes)} of cells)?"
        if not yes and not is_confirmed(question, objects.url):
            print_remark("nothing was removed")
            return
        documents = delete_object(objects.meta, objects.chunks, about.id)
    if as_json:
        print_json("db-delete", url=objects.url, id=about.id, documents=documents)
    else:
        plural = "" if documents == 1 else "s"
        print_remark(f"the {about.kind} {name}({about.id}) was removed: {documents} document{plural}")


@verb("rename", "weather.db temperature t2m")
@url_argument
@click.argument("names", nargs=-1, required=True, metavar="[COLLECTION] NAME")
def rename(url: str, names: tuple[str, ...], storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """Give COLLECTION another name; or the one object of a server that URL names behind #."""
    server = is_server(url)
    if len(names) != (1 if server else 2):
        form = "URL#OLD NEW" if server else "URL OLD NEW"
        raise Invalid("db rename takes the old name and the new one", url=url, remedy=f"write db rename {form}")
    if server:
        with _objects(url, storage_option) as objects:
            from hyperslab.formats.mongo.objects import rename_object

            objects.needed("rename")
            rename_object(objects.meta, objects.chunks, objects.id, names[0])
    else:
        with open_client(url, storage_option, writable=True) as client:
            find_collection(client, names[0]).rename(names[1])
    if as_json:
        print_json("db-rename", url=url, name=names[-1])
    else:
        print_remark(f"the name is {names[-1]} now")


@verb("expire", "mongodb://localhost/climate --older-than 90d --keep-newest 3 --dry-run")
@url_argument
@click.argument("collection", required=False)
@click.option("--older-than", callback=parse_age, metavar="AGE", help="Made longer ago: 2w, 90d, 12h, 30m or 45s.")
@click.option("--keep-newest", type=click.IntRange(1), metavar="N", help="Of each name keep the newest N.")
@attribute_option
@dimension_option
@click.option("--variable", "names", multiple=True, metavar="NAME", help="Only objects with this variable; repeatable.")
@click.option("--name", help="Only objects of this name.")
@click.option("--until", metavar="DATE", help="Only objects made before (UTC).")
@click.option("--dry-run", is_flag=True, help="Remove nothing; show what would be removed.")
def expire(
    url: str,
    collection: str | None,
    dry_run: bool,
    storage_option: dict[str, object] | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Remove old objects of a server with their chunks: by their age, by the number of newer ones, or by both.

    Nothing is asked, so that cron can run it; --dry-run shows what would be removed. Of COLLECTION, in a folder, it
    removes the older versions of arrays that were kept for as long as the collection keeps them.
    """
    if not is_server(url):
        if collection is None or dry_run or any(value or value == 0 for value in wanted.values()):
            remedy = (
                "write db expire URL COLLECTION; arrays are removed by db delete URL COLLECTION 'ATTR<=VALUE' --yes, "
                "and how long versions are kept was said when the collection was made"
            )
            what = "which collection is not said" if collection is None else "a collection's versions take no options"
            raise Invalid(what, url=url, remedy=remedy)
        expire_versions(url, collection, storage_option, as_json=as_json)
        return
    refuse_collection(collection, "leave the collection out")
    with _objects(url, storage_option) as objects:
        objects.refuse_object("expire")
        removed = objects.expire(dry_run=dry_run, **wanted)
        infos = list(removed) if dry_run else removed  # what is removed is told at once
        if as_json:
            print_json("db-expire", url=objects.url, applied=not dry_run, objects=[asdict(info) for info in infos])
            return
        echo_rows(infos, table, "nothing to remove")
        if dry_run and infos:
            print_remark("nothing was removed: without --dry-run these are")


@verb("versions", "'mongodb://localhost/climate#air'")
@url_argument
@click.argument("wanted", nargs=-1, metavar="[COLLECTION [ID|CONDITION]...]")
def versions(url: str, wanted: tuple[str, ...], storage_option: dict[str, object] | None, as_json: bool) -> None:
    """The older versions of one object of a server that are kept, the oldest first, and the object itself.

    Each can be read under its id: hyperslab info 'mongodb://localhost/climate#ID'. Of the one array of COLLECTION that
    has this id, or meets the conditions, the moments at which it changed: db get ... --at MOMENT.
    """
    if not is_server(url):
        show_changes(url, wanted, storage_option, as_json=as_json)
        return
    refuse_collection(wanted, "name the object behind #")
    with _objects(url, storage_option) as objects:
        from hyperslab.formats.mongo.search import find_versions

        objects.needed("versions")
        found = find_versions(objects.meta, objects.id)
    if as_json:
        print_json("db-versions", url=objects.url, objects=[asdict(info) for info in found])
    else:
        click.echo(format_columns(version_rows(found)))


@verb("compact", "'mongodb://localhost/climate#air' --keep-old 2h")
@url_argument
@click.option("--chunk-bytes", metavar="SIZE", help="Join chunks up to so many bytes, such as 1MiB; else 4MiB.")
@click.option("--keep-old", callback=parse_age, metavar="AGE", help="Keep the old chunks for their readers: 1h, 2d.")
def compact(
    url: str,
    chunk_bytes: str | None,
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
        most = None if chunk_bytes is None else parse_size(chunk_bytes, "--chunk-bytes")
        new = objects.compact(most, keep_old)
    if as_json:
        print_json("db-compact", url=objects.url, id=new, old=old)
    else:
        print_remark("there was nothing to join" if new == old else f"the object is {new} now")


@verb("check", "weather.db --deep")
@url_argument
@click.option("--deep", is_flag=True, help="Read every cell too; of a server, decode every sparse chunk.")
def check(url: str, deep: bool, storage_option: dict[str, Any] | None, as_json: bool) -> int:
    """Every problem of the collections or objects at URL, or of one object, one a line; nothing when all is well.

    The exit code is 1 when there are problems. Nothing is changed: hyperslab repair mends.
    """
    if not is_server(url):
        report = check_dataset(url, deep, storage_options=storage_option)
        return print_problems(url, report, deep=deep, as_json=as_json)
    with _objects(url, storage_option) as objects:
        from hyperslab.formats.mongo.rules import find_problems

        id = None if objects.object is None else objects.id
        problems = find_problems(objects.meta, objects.chunks, id, deep=deep)
        return print_problems(objects.url, problems, deep=deep, as_json=as_json)


@verb("index", "mongodb://localhost/climate --attr station")
@url_argument
@click.argument("collection", required=False)
@click.option("--attr", "attrs", multiple=True, metavar="NAME", help="Also by this attribute; repeatable.")
@click.option("--positional", is_flag=True, help="Also by the place of a chunk: one key finds one chunk.")
def index(
    url: str,
    collection: str | None,
    attrs: tuple[str, ...],
    positional: bool,
    storage_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Make the indexes that look-ups on a server need, where they are missing; of a COLLECTION make its index anew.

    Then list them, as hyperslab doctor URL does, which makes none. Others may read and write meanwhile.
    """
    if not is_server(url):
        if collection is None or attrs or positional:
            what = "a collection's index has no options" if attrs or positional else "which collection is not said"
            raise Invalid(what, url=url, remedy="write hyperslab db index URL COLLECTION")
        with open_client(url, storage_option, writable=True) as client:
            found = find_collection(client, collection)
            found.make_index()
            print_index_states("db-index", url, [found.index_state()], as_json=as_json)
        return
    refuse_collection(collection, "leave the collection out")
    with _objects(url, storage_option) as objects:
        objects.refuse_object("index")
        objects.make_indexes(attrs, positional=positional)
        states = objects.indexes()
    if as_json:
        print_json("db-index", url=objects.url, indexes=[asdict(state) for state in states])
    else:
        click.echo(format_columns(index_rows(states)))


@verb("gc", "mongodb://localhost/climate --apply")
@url_argument
@click.option("--apply", is_flag=True, help="Remove; without it only what would be removed is shown.")
@click.option(
    "--age", type=float, default=3600, show_default=True, metavar="SECONDS", help="Leave what is younger; 0: nothing."
)
def gc(url: str, apply: bool, age: float, storage_option: dict[str, object] | None, as_json: bool) -> None:
    """List what belongs to nothing on a server: chunks without an object, objects never finished, copies of documents.

    With --apply it is removed. With --age 0 nobody may be writing.
    """
    with _objects(url, storage_option) as objects:
        from hyperslab.formats.mongo.rules import collect_garbage

        objects.refuse_object("gc")
        found = collect_garbage(objects.meta, objects.chunks, age=age, dry_run=not apply).orphans
    if as_json:
        rows = [{"kind": one.kind, "id": one.id, "documents": one.documents, "nbytes": one.nbytes} for one in found]
        print_json("db-gc", url=objects.url, applied=apply, garbage=rows)
        return
    for one in found:
        click.echo(f"{one.id}: {one.kind}: {one.message} ({size_text(one.nbytes)})")
    total = f"{sum(one.documents for one in found)} documents, {size_text(sum(one.nbytes for one in found))}"
    print_remark(f"{total} removed" if apply else f"{total}; --apply removes them" if found else "nothing to remove")


for command in (
    list_objects,
    schema,
    arrays,
    query,
    info,
    get,
    put,
    rename,
    delete,
    add_attribute,
    rename_attribute,
    remove_attribute,
    expire,
    versions,
    compact,
    check,
    relink,
    index,
    gc,
):
    db_command.add_command(command)
