"""The command line: parse arguments, call the floors below, print. Each command is a module, imported when it is used.

Data goes to stdout, everything else to stderr; ``--json`` gives one document with a ``schema`` name. Exit codes: see
:mod:`hyperslab.cli.exit_codes`.
"""

from __future__ import annotations

import click

from hyperslab import __version__
from hyperslab.cli.exit_codes import Commands

COMMANDS = {
    "info": "format, sizes, dimensions and arrays of a dataset",
    "tree": "the tree of groups, arrays and links",
    "dump": "the dataset as CDL text, as ncdump prints it",
    "get": "a part of an array, chosen by labels or positions",
    "convert": "copy a dataset into another format, or cut and encode it anew",
    "virtual": "references to the chunks of datasets, which open as one, in place of a copy",
    "copy": "copy a dataset byte by byte, to and from buckets",
    "sync": "send what changed in a dataset to its copy",
    "edit": "other names of variables, dimensions and attributes; attributes set and deleted",
    "repack": "copy a dataset with cells that take less: packed numbers, or fewer digits",
    "unpack": "copy a dataset with packed cells as the numbers that they mean",
    "append": "put the rows of one dataset behind those of another",
    "diff": "what differs between two datasets, cell by cell and attribute by attribute",
    "check": "every problem of a dataset, with its place",
    "repair": "mend what a check finds, without losing a sound cell",
    "plan": "which chunks, bytes and requests a selection costs",
    "stats": "least, mean and largest cells, deviations and missing ones, also by level or month",
    "aggregate": "means, sums and extremes over dimensions, by month or for one month after another",
    "plot": "a picture of a part: a line or an image",
    "serve": "datasets of any format as Zarr over HTTP",
    "history": "the snapshots of a repository",
    "tag": "names that stay, for snapshots of a repository",
    "branch": "names that move, for versions of a repository that go their own ways",
    "commit": "make a dataset the newest version of a repository",
    "restore": "make an older version of a repository the newest one",
    "expire": "take old snapshots out of a repository",
    "db": "collections of arrays, and objects in a database: list, query, get, check and more",
    "formats": "the formats that are spoken, and what they hold",
    "doctor": "versions, and what is available here",
    "tour": "real data through every format, step by step, with a chart at the end",
}

# Commands that share a file with others. Only those do that import the same floors: each import costs start-up time.
FILES = {
    "tree": "info",
    "dump": "info",
    "plan": "info",
    "append": "convert",
    "unpack": "repack",
    "sync": "copy",
    "repair": "check",
    **dict.fromkeys(("tag", "branch", "commit", "restore", "expire"), "history"),
    "formats": "doctor",
}


@click.command(
    cls=Commands,
    commands=COMMANDS,
    files=FILES,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Each command has its own --help with an example; man hyperslab has all of them. The Tab key completes "
    'commands, options, arrays and dimensions after eval "$(_HYPERSLAB_COMPLETE=bash_source hyperslab)"; so with '
    "zsh_source and fish_source.",
)
@click.version_option(__version__, prog_name="hyperslab")
def main() -> None:
    """Large labelled N-dimensional arrays: look at them, slice them by label, convert them."""


__all__ = ["main"]
