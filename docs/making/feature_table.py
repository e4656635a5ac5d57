"""docs/formats/matrix.md, of what the formats declare. ``python docs/making/feature_table.py`` writes it anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import hyperslab as hs
from hyperslab.conversion.losses import CONSEQUENCES, STORAGE
from hyperslab.formats.base import Feature, Variant

PAGE = Path(__file__).parents[1] / "formats" / "matrix.md"
_INTRODUCTION = """\
# What each format holds

This page is made of what the formats declare (`python docs/making/feature_table.py`), which is what
`hs.list_formats()` and `hyperslab formats --json` give and what `convert` asks. A test compares it with a table that
was written by hand from the specifications; another converts four real datasets from each of these formats into each
other one.

Whatever the formats are: **values, shapes, types of numbers that both have, names of dimensions, coordinates and
attributes are never lost.** Any other loss happens only where the target's column below has no `x`.
"""
_ANNOUNCED = """\
## How a loss is announced

Nothing is lost in silence. `convert` compares what the source has with what the target declares, and asks the target
about every array and attribute, **before anything is written**:

- Without `allow_loss=True` (`--allow-loss`) it raises `Unsupported`, which lists every loss with its node and what
  becomes of it; the target is not touched.
- With it each loss is logged as a warning (`lost in <format>: /<node>: …`), the conversion goes on, and `report.losses`
  (`--json`: `losses`) has all of them: `node`, `feature`, `message`.
- `verify=True` (`--verify`) compares the finished target with the source as it was to be stored; `hyperslab diff` tells
  how the two differ, losses included.
- What cannot be decoded, or is no part of a format's model (references in the HDF5 below a netCDF file), is a loss too.

A loss that no column tells of is that of one array or attribute which is too much for its place: more than 16 MiB of
text in a database of collections, text that is no coordinate in a format of one array. It is announced the same way, as
`cells`, `type` or `attributes`.
"""


def columns() -> dict[str, Variant]:
    """The variants of all formats that are written, by what they are called here."""
    found = {}
    for name, info in sorted(hs.list_formats().items()):
        for variant in info.variants if info.writable else ():
            found[name if len(info.variants) == 1 else f"{name} {variant.name}"] = variant
    return found


def render() -> str:
    """The page."""
    variants = columns()
    parts = [
        _INTRODUCTION,
        "## The table\n",
        *_table(["", *variants], ([_words(feature), *_marks(feature, variants.values())] for feature in Feature)),
        "",
        "Variants of one format are asked for by an option; the first one is what a new dataset becomes:\n",
        *(f"- {name}: {_options(each)}" for name, each in variants.items() if each.options),
        "",
        "## What becomes of what a target cannot hold\n",
        *_table(
            ["a target without", "makes of it"], ([_words(feature), text] for feature, text in CONSEQUENCES.items())
        ),
        "",
        "How cells are stored is no loss, for all of them are the same, and is not announced:\n",
        *_table(["a target without", "stores"], ([_words(feature), text] for feature, text in STORAGE.items())),
        "",
        _ANNOUNCED,
        "## How each holds it, and why not\n",
        *_notes(variants),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _options(variant: Variant) -> str:
    return ", ".join(f'`{key}="{value}"`' for key, value in variant.options.items())


def _words(feature: Feature) -> str:
    return feature.value


def _marks(feature: Feature, variants: Iterable[Variant]) -> list[str]:
    return ["x" if feature in variant.features else "" for variant in variants]


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _notes(variants: dict[str, Variant]) -> Iterator[str]:
    for name, variant in variants.items():
        yield f"### {name}\n"
        for held, title in ((True, "Holds"), (False, "Lacks")):
            told = [(feature, note) for feature, note in variant.notes.items() if (feature in variant.features) == held]
            for feature, note in told:
                yield f"- {title} {_words(feature)}: {note}."
        yield ""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
