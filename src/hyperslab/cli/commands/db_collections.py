"""What ``hyperslab db`` does with collections of arrays: the verbs that they alone have, and their side of others."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from hyperslab import api
from hyperslab.checks import check as check_dataset
from hyperslab.cli import labelled
from hyperslab.cli.collecting import (
    array_facts,
    array_of,
    array_rows,
    client_of,
    collection_of,
    collection_rows,
    conditions_of,
    facts_of,
    is_server,
    schema_rows,
)
from hyperslab.cli.commands.get import check_ending, give_out
from hyperslab.cli.databases import tell_problems
from hyperslab.cli.opening import selection_key
from hyperslab.cli.output import columns, echo_rows, print_json, say
from hyperslab.cli.selection import parse_selections
from hyperslab.database import Collection
from hyperslab.errors import Invalid, Unsupported


def refuse_server(url: str, verb: str) -> None:
    """Unsupported for a database server, which holds objects and no collections."""
    if is_server(url):
        raise Unsupported(f"db {verb} of a server", url=url, remedy="give a folder, or a URL, that holds collections")


def list_collections(url: str, storage: dict[str, Any] | None, as_json: bool, limit: int | None) -> None:
    """The collections of a place, one a line."""
    with client_of(url, storage) as client:
        shown = list(islice(client, limit))
        facts = [facts_of(collection) for collection in shown]
        for collection in shown:
            _tell_unreadable(url, collection)
    if as_json:
        print_json("db-list", url=url, collections=facts)
    else:
        echo_rows(facts, collection_rows, "no collections")


def show_schema(url: str, name: str, storage: dict[str, Any] | None, as_json: bool) -> None:
    """What the arrays of a collection have in common."""
    refuse_server(url, "schema")
    with client_of(url, storage) as client:
        collection = collection_of(client, name)
    if as_json:
        print_json("db-schema", url=url, collection=collection.as_dict)
        return
    click.echo("\n\n".join(columns(rows) for rows in schema_rows(collection)))


def show_arrays(
    url: str,
    name: str,
    conditions: tuple[str, ...],
    storage: dict[str, Any] | None,
    as_json: bool,
    *,
    order: str | None,
    limit: int | None,
) -> None:
    """The arrays of a collection that meet conditions, one a line."""
    with client_of(url, storage) as client:
        collection = collection_of(client, name)
        wanted = conditions_of(collection, conditions)
        found = (array_facts(array) for array in collection.query(wanted, order=order, limit=limit))
        if as_json:
            print_json("db-query", url=url, collection=name, arrays=list(found))
        else:
            echo_rows(found, array_rows, "no arrays")
        _tell_unreadable(url, collection)


def _tell_unreadable(url: str, collection: Collection) -> None:
    if lost := collection.unreadable:
        arrays = "array that cannot be read is" if lost == 1 else "arrays that cannot be read are"
        say(f"{lost} {arrays} left out of {collection.name}: hyperslab check {url} tells why")


def get_part(
    url: str,
    wanted: tuple[str, ...],
    selections: tuple[str, ...],
    output: str | None,
    storage: dict[str, Any] | None,
    as_json: bool,
    *,
    nearest: bool,
) -> None:
    """A labelled part of one array, to a file or stdout."""
    if not wanted:
        raise Invalid("db get is about one array", url=url, remedy="name its collection, and its id or ATTR=VALUE")
    check_ending(output)
    with client_of(url, storage) as client:
        array = array_of(collection_of(client, wanted[0]), wanted[1:])
        path = f"{wanted[0]}/{array.id}"
    cells = api.open_array(url, path=path, storage_options=storage)
    key = selection_key(cells, parse_selections(selections), nearest)
    part = labelled.take(cells, cells, key, decoded=False)
    give_out("db-get", part, path, url, nearest=nearest, output=output, as_json=as_json)


def check_collections(url: str, deep: bool, storage: dict[str, Any] | None, as_json: bool) -> int:
    """Every problem of the collections at a place; 1 when there are some."""
    report = check_dataset(url, deep, storage_options=storage)
    return tell_problems(url, report, deep=deep, as_json=as_json)


def relink_collections(
    url: str, name: str | None, storage: dict[str, Any] | None, as_json: bool, *, relative: bool | None
) -> None:
    """Links of DEKER's layout lead to where its files are now."""
    refuse_server(url, "relink")
    with client_of(url, storage, writable=True) as client:
        names = [collection_of(client, name).name] if name else [each.name for each in client if each.layout == "deker"]
        for each in names:
            client.relink(each, relative=relative)
    if as_json:
        print_json("db-relink", url=url, collections=names)
    elif names:
        say(f"the links of {', '.join(names)} lead to {url}")
    else:
        say(f"no collection of {url} has links: they are those of DEKER's layout")
