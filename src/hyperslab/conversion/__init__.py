"""Conversion: walk a Reader, write a Writer, in bounded memory; every loss is said before anything is copied.

pipeline         ``convert`` from beginning to end; calls all that follows
source_nodes     which nodes of a source are converted, and which of them are damaged
selection        which cells and labels of an array ``select=`` means
losses           what a format's features cannot hold, and what becomes of it
references       links and references, as they are at the target's place
variable_length  cells of any length in cells of one length
plan             what is written and lost: nodes as features allow, tried on an empty target; rechunk: their chunks
adapt            chunks, codecs, labels, names and attributes in the target's own words
staging          where the target is built; journal: what a resumed conversion knows
copy             cells, box by box; distributed: by the workers of a cluster; verify: both sides compared
report           what was done; cost: what it would cost
virtual_dataset  references to chunks where they lie, in place of copies; reference_files: how they are stored
labelled_part    a selected part with its labels: CSV, JSON, .npy, a dataset of its own
statistics       numbers about an array in one pass
transfer         ``copy`` and ``sync``: bytes as they are, in the same format
packing          other numbers of cells: packed, quantized (rounding), in other units; recoding: a source with
                 them, labels of points, rows as groups of arrays
edit             names and attributes changed by one step; edit_plan: what becomes of each node
append, memory_objects, blaze_shards: appending, ``save``, ``shard`` and ``gather``; frames: data frames of
pandas; frame_append: rows for them
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperslab.conversion.packing import Pack, Round, Units, Unpack
    from hyperslab.conversion.virtual_dataset import VirtualReport

__all__ = ["Pack", "Round", "Units", "Unpack", "VirtualReport"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # on use: whoever needs one file of this folder does not load what these need
        from hyperslab.conversion import packing, virtual_dataset

        return getattr(virtual_dataset if name == "VirtualReport" else packing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
