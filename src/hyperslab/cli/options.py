"""Options and arguments that several commands have: each stands here once, with its help and what makes its value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from hyperslab.array import Array
from hyperslab.array.periods import BY, EVERY
from hyperslab.cli.arguments import (
    SelectionOptions,
    open_dataset,
    parse_box,
    parse_names,
    parse_options,
    parse_tolerance,
    split_commas,
)
from hyperslab.errors import HyperslabError
from hyperslab.formats import FORMATS
from hyperslab.group.choice import Choice
from hyperslab.group.walk import arrays_of
from hyperslab.model.amounts import parse_size

Decorator = Callable[[Any], Any]
_Command = TypeVar("_Command")


def complete_place(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the name of a file or folder."""
    return [CompletionItem(incomplete, type="file")]


def complete_array(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the paths of arrays in the dataset that was typed before, where it lies on this machine."""
    return [CompletionItem(path) for path in _arrays_typed(context) if path.startswith(incomplete)]


def complete_dimension(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the dimensions of the array that was typed before, else of all arrays there, each with its ``=``."""
    arrays = _arrays_typed(context)
    path = context.params.get("path") or _typed(context, 1)
    chosen = [arrays[path]] if path in arrays else arrays.values()
    dims = dict.fromkeys(dim for array in chosen for dim in array.dims if dim is not None)
    return [CompletionItem(f"{dim}=") for dim in dims if dim.startswith(incomplete)]


def complete_format(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of formats."""
    return [CompletionItem(name) for name in FORMATS if name.startswith(incomplete)]


def _typed(context: click.Context, place: int) -> str | None:
    """Return the argument at a place of the command, which click leaves aside while an option has no value yet."""
    return context.args[place] if place < len(context.args) else None


def _arrays_typed(context: click.Context) -> dict[str, Array]:
    """Return the arrays by their path in the dataset that was typed before; none where that cannot be opened."""
    url = context.params.get("url") or context.params.get("src") or _typed(context, 0)
    if not isinstance(url, str) or "://" in url:  # a server would be asked at each press of a key
        return {}
    try:
        return dict(arrays_of(open_dataset(url, {}), {}))
    except (HyperslabError, OSError):
        return {}


url_argument = click.argument("url", shell_complete=complete_place)
path_argument = click.argument("path", default="", shell_complete=complete_array)
format_option = click.option(
    "--format", shell_complete=complete_format, help="The format, where it is not to be found out."
)
memory_option = click.option(
    "--memory",
    default="256MiB",
    show_default=True,
    metavar="SIZE",
    callback=lambda context, parameter, text: parse_size(text, "--memory"),
    help="Memory for cells in flight.",
)
workers_option = click.option("--workers", type=click.IntRange(1), metavar="N", help="Threads; else one per core.")
packing_option = click.option(
    "--packing",
    type=click.Choice(["same", "decoded"]),
    default="same",
    help="Of joined datasets that pack cells differently: an error (same), or the floats that they mean.",
)
scheduler_option = click.option(
    "--scheduler", metavar="ADDRESS", help="Have the workers of this dask.distributed cluster do it."
)
units_option = click.option(
    "--units",
    multiple=True,
    metavar="NAME=UNIT",
    callback=lambda context, parameter, texts: parse_names(texts, "--units"),
    help="Variables in other units: t2m=degC, or by a pattern; packed cells get another scale. Repeatable.",
)


def apply_options(command: _Command, *options: Decorator) -> _Command:
    """Give a command options, which its help lists in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def side_options(command: _Command) -> _Command:
    """Give a command the storage options of SRC and of DST."""
    return apply_options(command, storage_option("--src-option", "SRC"), storage_option("--dst-option", "DST"))


def target_options(command: _Command) -> _Command:
    """Give a command the options of a new dataset: its format, and whether it replaces what is there."""
    format = click.option(
        "--format", shell_complete=complete_format, help="The target's format, where its name does not say it."
    )
    overwrite = click.option("--overwrite", is_flag=True, help="Replace the target, once the new one is complete.")
    return apply_options(command, format, overwrite)


def period_options(command: _Command) -> _Command:
    """Give a command the options that put times into periods."""
    by = click.option("--by", type=click.Choice(BY), help="For each month (…) of the calendar, all years together.")
    every = click.option("--every", type=click.Choice(EVERY), help="For one month (…) after another.")
    return apply_options(command, by, every)


def choice_options(*, companions: bool = False) -> Decorator:
    """Return the options that choose variables, as one argument ``choice``; with ``companions`` ``--alone`` too."""

    def decorate(command: Callable[..., object]) -> Callable[..., object]:
        @wraps(command)
        def run(
            *arguments: object,
            variables: tuple[str, ...],
            exclude: tuple[str, ...],
            where: tuple[str, ...],
            alone: bool = False,
            **options: object,
        ) -> object:
            choice = Choice.of(split_commas(variables), split_commas(exclude), where, alone=alone)
            return command(*arguments, choice=choice, **options)

        with_companions = click.option("--alone", is_flag=True, help="Leave out what the variables belong to by CF.")
        named = click.option(
            "-v",
            "--variables",
            multiple=True,
            metavar="NAME,…",
            shell_complete=complete_array,
            help="These variables: names, or patterns over paths (t*, ocean/*/t, ocean/**); repeatable.",
        )
        left_out = click.option(
            "-x",
            "--exclude",
            multiple=True,
            metavar="NAME,…",
            shell_complete=complete_array,
            help="All variables but these; repeatable.",
        )
        conditions = click.option(
            "--where",
            multiple=True,
            metavar="ATTR=VALUE",
            help="Variables with this attribute, such as units=K, units!=1 or standard_name~=air_*; repeatable.",
        )
        return apply_options(run, named, left_out, conditions, *([with_companions] if companions else []))

    return decorate


def selection_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the options of a selection: ``-s``, and the others as one argument ``manner``."""

    @wraps(command)
    def run(
        *arguments: object, nearest: bool, tolerance: tuple[str, ...], bbox: str | None, **options: object
    ) -> object:
        limits = tuple(parse_tolerance(text) for text in tolerance)
        return command(*arguments, manner=SelectionOptions(nearest or bool(limits), limits, parse_box(bbox)), **options)

    select = click.option(
        "-s",
        "--select",
        "selections",
        multiple=True,
        metavar="DIM=VALUE",
        shell_complete=complete_dimension,
        help="A label, position or range along a dimension, or X, Y, Z, T or a standard name; repeatable.",
    )
    near = click.option(
        "--nearest", is_flag=True, help="Take the neighbour of a label that no cell has; longitudes go around."
    )
    limit = click.option(
        "--tolerance",
        multiple=True,
        metavar="N[UNIT]",
        help="None farther than this: 0.5 for numbers, 3h (also D, m, s) for times; repeatable, takes the nearest.",
    )
    box = click.option(
        "--bbox",
        metavar="W,S,E,N",
        help="The cells in this box of degrees; on a curved grid the smallest rectangle that holds all of them.",
    )
    return apply_options(run, select, near, limit, box)


ANY = "any"
"""The word that stands for every place."""


def allow_option(whose: str = "the dataset") -> Decorator:
    """Return the places besides that links may lead to: a tuple of them, or True for all."""
    return click.option(
        "--allow-external",
        multiple=True,
        metavar="PLACE",
        callback=lambda context, parameter, texts: True if ANY in texts else texts,
        help=f"A folder or URL that links and references of {whose} may lead to, or {ANY}; repeatable.",
    )


def storage_option(flag: str = "--storage-option", whose: str = "the place") -> Decorator:
    """Return an option for commands that open something; its value is a mapping or None."""
    return click.option(
        flag,
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda context, parameter, texts: parse_options(texts),
        help=f"A storage option of {whose}, such as region=eu-west-1 or allow_external=FOLDER; repeatable.",
    )


def at_option(whose: str = "the dataset") -> Decorator:
    """Return the version of a dataset that is meant, as text or None: a moment, or its name in a repository."""
    return click.option(
        "--at",
        metavar="VERSION",
        help=f"The version of {whose} that was the present one then: 2026-11-01T00:00 (UTC); in a repository also a "
        "tag, a branch, or the id of a snapshot.",
    )
