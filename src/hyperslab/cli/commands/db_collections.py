"""``hyperslab db`` of collections alone: their schemas, arrays, queries, names and links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from hyperslab.cli.database_objects import refuse_server
from hyperslab.cli.database_options import is_confirmed, verb
from hyperslab.cli.database_rows import array_rows, describe_array, schema_rows
from hyperslab.cli.open_collections import find_collection, find_database_array, names_id, open_client, tell_unreadable
from hyperslab.cli.options import at_option, url_argument
from hyperslab.cli.output import echo_rows, format_columns, print_json, print_remark
from hyperslab.database import AttributeSchema, Collection
from hyperslab.database.typed_conditions import parse_conditions, parse_value
from hyperslab.errors import Conflict, Invalid
from hyperslab.formats.conditions import join_conditions
from hyperslab.model.schemas.attributes import type_of


def _show_arrays(
    url: str,
    name: str,
    conditions: tuple[str, ...],
    storage: dict[str, object] | None,
    as_json: bool,
    *,
    name_of_verb: str,
    at: str | None,
    order: str | None,
    limit: int | None,
) -> None:
    """Print the arrays of a collection that meet conditions, one a line."""
    refuse_server(url, name_of_verb)
    with open_client(url, storage) as client:
        collection = find_collection(client, name, at)
        wanted = parse_conditions(collection, join_conditions(conditions))
        found = (describe_array(array) for array in collection.query(wanted, order=order, limit=limit))
        if as_json:
            print_json("db-query", url=url, collection=name, arrays=list(found))
        else:
            echo_rows(found, array_rows, "no arrays")
        tell_unreadable(url, collection)


@verb("schema", "weather.db temperature")
@url_argument
@click.argument("collection")
def schema(url: str, collection: str, storage_option: dict[str, Any] | None, as_json: bool) -> None:
    """Show what the arrays of COLLECTION have in common: dimensions with their labels, attributes, type, fill value."""
    refuse_server(url, "schema")
    with open_client(url, storage_option) as client:
        described = find_collection(client, collection)
    if as_json:
        print_json("db-schema", url=url, collection=described.as_dict)
        return
    click.echo("\n\n".join(format_columns(rows) for rows in schema_rows(described)))


_order = click.option("--order", metavar="ATTR", help="By this attribute; -ATTR: from the largest value down.")
_limit = click.option("--limit", type=click.IntRange(0), help="At most so many.")


@verb("arrays", "weather.db temperature --limit 10")
@url_argument
@click.argument("collection")
@at_option("the collection")
@_order
@_limit
def arrays(
    url: str,
    collection: str,
    at: str | None,
    order: str | None,
    limit: int | None,
    storage_option: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """The arrays of COLLECTION with their ids and attributes, one a line, in the order of their keys."""
    _show_arrays(url, collection, (), storage_option, as_json, name_of_verb="arrays", at=at, order=order, limit=limit)


@verb("query", "weather.db temperature 'dt>=2023-01-01' 'dt<=2023-01-31' station^=K --order -dt")
@url_argument
@click.argument("collection")
@click.argument("conditions", nargs=-1, metavar="[CONDITION]...")
@at_option("the collection")
@_order
@_limit
def query(
    url: str,
    collection: str,
    conditions: tuple[str, ...],
    at: str | None,
    order: str | None,
    limit: int | None,
    storage_option: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """The arrays of COLLECTION whose attributes meet all CONDITIONs, one a line.

    ATTR=VALUE (given several times: any of them), ATTR!=VALUE, ATTR>=VALUE, ATTR<=VALUE, ATTR^=BEGINNING of a text,
    ATTR~=PATTERN, ATTR:=JSON (null: not set); or between two of them. In one text, too: 'A=1 and B>=2 or A=3'.
    """
    _show_arrays(
        url, collection, conditions, storage_option, as_json, name_of_verb="query", at=at, order=order, limit=limit
    )


@verb("relink", "weather.db temperature")
@url_argument
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


def _tell_schema_change(schema: str, url: str, changed: Collection, remark: str, *, as_json: bool) -> None:
    """Print the document of a collection with its new schema, or a remark."""
    if as_json:
        print_json(schema, url=url, collection=changed.as_dict)
    else:
        print_remark(remark)


@verb("add-attribute", "weather.db temperature quality int --default 0")
@url_argument
@click.argument("collection")
@click.argument("name")
@click.argument("kind", metavar="TYPE")
@click.option("--default", metavar="VALUE", help="The value in arrays that are not given another; without it unset.")
def add_attribute(
    url: str,
    collection: str,
    name: str,
    kind: str,
    default: str | None,
    storage_option: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Add a custom attribute to the schema of COLLECTION. No array is touched.

    TYPE: int, float, complex, string, tuple, datetime, or a type of NumPy such as numpy.float32.
    """
    refuse_server(url, "add-attribute")
    with open_client(url, storage_option, writable=True) as client:
        found = find_collection(client, collection)
        attribute = AttributeSchema(name, type_of(kind), primary=False, default=None)
        if default is not None:
            attribute = replace(attribute, default=parse_value(attribute, default))
        found.add_attribute(attribute)
        remark = f"the arrays of {collection} have {name}: {default if default is not None else 'unset'}"
        _tell_schema_change("db-add-attribute", url, found, remark, as_json=as_json)


@verb("rename-attribute", "weather.db temperature quality flag")
@url_argument
@click.argument("collection")
@click.argument("name")
@click.argument("new_name")
def rename_attribute(
    url: str, collection: str, name: str, new_name: str, storage_option: dict[str, Any] | None, as_json: bool
) -> None:
    """Give the attribute NAME of COLLECTION another name. No array is touched."""
    refuse_server(url, "rename-attribute")
    with open_client(url, storage_option, writable=True) as client:
        found = find_collection(client, collection)
        found.rename_attribute(name, new_name)
        remark = f"the attribute {name} of {collection} is {new_name} now"
        _tell_schema_change("db-rename-attribute", url, found, remark, as_json=as_json)


@verb("remove-attribute", "weather.db temperature quality --yes")
@url_argument
@click.argument("collection")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove_attribute(
    url: str, collection: str, name: str, yes: bool, storage_option: dict[str, Any] | None, as_json: bool
) -> None:
    """Remove the custom attribute NAME from the schema of COLLECTION, with its values. No array is touched.

    You are asked before.
    """
    refuse_server(url, "remove-attribute")
    with open_client(url, storage_option, writable=True) as client:
        found = find_collection(client, collection)
        question = f"Remove the attribute {name} from the {len(found)} arrays of {collection}?"
        if not yes and not is_confirmed(question, url):
            print_remark("nothing was removed")
            return
        found.remove_attribute(name)
        remark = f"the arrays of {collection} have no {name} any more"
        _tell_schema_change("db-remove-attribute", url, found, remark, as_json=as_json)


def show_changes(url: str, wanted: tuple[str, ...], storage: dict[str, Any] | None, *, as_json: bool) -> None:
    """Print the moments at which the one array of a collection changed that an id or conditions name."""
    if not wanted:
        raise Invalid("db versions is about one array", url=url, remedy="name its collection, and its id or ATTR=VALUE")
    with open_client(url, storage) as client:
        array = find_database_array(find_collection(client, wanted[0]), wanted[1:])
        moments = [moment.isoformat() for moment in array.changes()]
    if as_json:
        print_json("db-versions", url=url, collection=wanted[0], id=array.id, changes=moments)
    elif moments:
        click.echo("\n".join(moments))
    else:
        print_remark("no versions are kept: a collection is made with keep_versions, or has none")


def expire_versions(url: str, collection: str, storage: dict[str, Any] | None, *, as_json: bool) -> None:
    """Remove the older versions of a collection's arrays whose time is over."""
    with open_client(url, storage, writable=True) as client:
        count = find_collection(client, collection).expire()
    if as_json:
        print_json("db-expire", url=url, collection=collection, values=count)
    else:
        print_remark(f"{count} values of older versions were removed")


def delete_collection(
    url: str, wanted: tuple[str, ...], storage: dict[str, Any] | None, *, yes: bool, as_json: bool
) -> None:
    """Remove a collection, or those of its arrays that an id or conditions name."""
    if not wanted:
        raise Invalid("which collection is to be removed is not said", url=url, remedy="name it behind the URL")
    name, *rest = wanted
    with open_client(url, storage, writable=True) as client:
        collection = find_collection(client, name)
        removed = _delete_arrays(collection, rest, url, yes=yes) if rest else _delete_whole(collection, url, yes=yes)
    if removed is None:
        print_remark("nothing was removed")
    elif as_json:
        ids, count = removed
        print_json("db-delete", url=url, collection=name, ids=ids, arrays=count)


def _delete_arrays(
    collection: Collection, wanted: Sequence[str], url: str, *, yes: bool
) -> tuple[list[str], int] | None:
    """Remove the arrays that an id or conditions name. Return their ids and number, None where the answer is no."""
    if names_id(wanted):
        where, found = None, [collection[wanted[0]]]
    else:
        where = parse_conditions(collection, join_conditions(wanted))
        found = list(collection.query(where))
    if not found:
        print_remark("no array is that: nothing was removed")
        return [], 0
    if not yes:
        if not is_confirmed(f"Remove {_count_text(len(found))} of the collection {collection.name}?", url):
            return None
        if where is not None:
            # The answer may take hours. What has come to meet the conditions since was not shown, and stays; so does
            # what meets them no more.
            shown = {array.id for array in found}
            found = [array for array in collection.query(where) if array.id in shown]
            if left := len(shown) - len(found):
                print_remark(f"{_count_text(left)} no longer met the conditions: left alone")
    for array in found:
        array.delete()
    print_remark(
        f"{_count_text(len(found))} of the collection {collection.name} {'was' if len(found) == 1 else 'were'} removed"
    )
    return [array.id for array in found], len(found)


def _delete_whole(collection: Collection, url: str, *, yes: bool) -> tuple[list[str], int] | None:
    """Remove a collection. Return no ids, and how many arrays it had; None where the answer is no. Conflict where
    arrays were made or removed while the question stood."""
    count = len(collection)
    if not yes:
        if not is_confirmed(f"Remove the collection {collection.name} with {_count_text(count)}?", url):
            return None
        if (now := len(collection)) != count:
            message = f"the collection {collection.name} has {_count_text(now)} by now: nothing was removed"
            raise Conflict(message, url=url, remedy="look at what was made, and ask again or say --yes")
    collection.delete()
    print_remark(f"the collection {collection.name} with {_count_text(count)} was removed")
    return [], count


def _count_text(count: int) -> str:
    return "1 array" if count == 1 else f"{count} arrays"
