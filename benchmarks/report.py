"""The outcomes as docs/benchmarks.md: the machine, the peers with their settings, one table per family of rows."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version

from benchmarks.harness import OURS, Outcome
from benchmarks.peers import SETTINGS

_INTRO = """\
# Benchmarks

Made by `make bench` on {day}: {cores} cores ({machine}), Python {python}. One interleaved run; each figure is a
median of at least five timings, each of which opens the dataset anew; results are compared outside the clock. The page
cache is warm, hyperslab's cache of decoded chunks is off except where a row says "cached". Data: a smooth field plus
noise, which Blosc-lz4 compresses {ratio:.2f} times. Only ratios carry over to other machines, and those of a busy
machine scatter: the load average during this run was {load:.1f}, where the run alone makes about 2.

| library | version | setting |
|---|---|---|
"""


_BOUNDS = """
## What bounds the rest

- *Reading large chunks.* A fifth of the time goes into the kernel's clearing of fresh pages for the result, about as
  much into the copy out of the page cache, and one strided copy per chunk is left since a chunk's rows are apart in a
  2-D result. zarrs does the same three things in Rust. With zstd the decoder is the bound: it is the same library in
  every peer.
- *Reading small chunks.* About 40 us a chunk: opening and closing a file 5, reading 7, decoding 10, copying 8, and
  Python 8. Threads hand Python's lock to each other four times a chunk, so two of them give 1.3 times one. netCDF4 and
  h5py read one file in place of 2,048.
- *Writing small chunks.* Creating a file costs 150 to 400 us on ext4 (more when many were removed shortly before, as
  between the rounds here), which is nearly all of it; all Zarr writers pay it. HDF5 writes one file. Durable writes
  wait for the journal.
- *Writing with zstd.* The encoder: the same library in every peer.
- *The tree.* 30 us per array, of them 13 for checking its document.
- *Shards.* As small chunks, without the files; encoding 64 KiB takes 20 us, the Python around it 12, and two threads
  get in each other's way as above.
- *Buckets.* The server: moto, a Python program on the same two cores, takes 2 ms a request, whoever asks.
- *One compressed file.* Packing: half is the encoder, a third the kernel taking 200 MB into new pages of its cache, as
  for `np.save`, which writes no less; the rest checksums. With zstd both ways are the library's own time, which
  bloscpack spends on two threads as well. 1,000 cells: a chunk is read whole for its checksum, which blosc2's frames
  do not have, and opening checks the header, the metadata and every offset.
- *NCZarr.* Both decode with the same libraries, hyperslab on two threads and netcdf-c on one: where the codec, or
  copying, is all the work, two cores give no more than 2. One plane uncompressed: 16 files are found and opened for
  1 MiB of cells, by both. Opening 300 variables: two files each, for both; the rest, about 50 us a variable, is Python
  taking apart three JSON objects.
- *NWB files of small datasets.* Writing: half of the time is hdmf's, which makes builders of containers, for all
  three; hyperslab's own part is 0.15 s in memory, and the kernel takes 0.1 to 1 s to make 1,700 files in 640 folders
  (see small chunks), where HDF5 makes one. Opening: two thirds are hdmf's and pynwb's own, the same for all; a third of
  the rest are hdmf's builders. Small reads: hyperslab has opened no array before the first of its cells is asked for;
  then it reads the array's two documents, which count for more than consolidated metadata, and compiles its codecs.
  The peers did that work when the file was opened; another read of the same dataset takes 35 us, as theirs.
- *NWB files of one large dataset.* HDF5 writes bare cells, hyperslab and hdmf-zarr compress them. One channel: a chunk
  of hyperslab holds all channels and is decoded whole, one of hdmf-zarr holds four.
- *MongoDB.* Putting: the server, which takes three quarters of the time whoever sends (the client's own work is 0.2 s
  of CPU for 256 MiB), and its journal, for which hyperslab waits after each batch, xarray_mongodb never; without
  that wait (`durable=False`) it was 0.79 s against 0.67. Getting: the driver alone needs two thirds of hyperslab's time
  to receive and decode the documents; the rest is one copy of each into the result. Lazily, dask puts the blocks
  together, for both.
- *Collections.* Updating a small part: DEKER writes bare cells in place; hyperslab decodes and encodes the chunk (1 to
  2 ms per MiB) and stores the tile anew beside the old one, so that nobody sees half of it. Writing all: the encoder.
  Creating: a folder and two files each, for which ext4 takes 60 to 80 us apiece at best, and many times that when many
  were removed shortly before, as between the rounds here; Python's part is 0.1 ms in bulk, 0.2 ms one by one. Durable
  ones wait for two flushes besides, where DEKER never waits.
"""


def page(families: Mapping[str, Sequence[Outcome]], ratio: float, load: float) -> str:
    """The whole page; ``ratio`` of the data under Blosc-lz4, mean ``load`` of the machine during the run."""
    intro = _INTRO.format(
        day=date.today(),
        cores=os.cpu_count(),
        machine=platform.machine(),
        python=platform.python_version(),
        ratio=ratio,
        load=load,
    )
    settings = "".join(f"| {name} | {_version(package)} | {text} |\n" for name, (package, text) in SETTINGS.items())
    verdicts = [verdict for outcomes in families.values() for outcome in outcomes for verdict in outcome.verdicts]
    met = sum(ratio >= target.factor for target, _, ratio in verdicts)
    tables = "".join(f"\n## {title}\n\n{_table(outcomes)}" for title, outcomes in families.items())
    return f"{intro}{settings}\n**{met} of {len(verdicts)} targets met.**\n{tables}{_BOUNDS}"


def _version(package: str) -> str:
    """That of a package of this environment, or the one that is asked for in another: ``name==version``."""
    name, _, fixed = package.partition("==")
    return fixed or version(name)


def _table(outcomes: Sequence[Outcome]) -> str:
    names = list(dict.fromkeys(name for each in outcomes for name in (*each.seconds, *each.missing) if name != OURS))
    head = ["work", OURS, *names, "ratio to peer (target): met or missed"]
    lines = [head, ["---"] * len(head)]
    lines += [[each.title, *(_cell(each, name) for name in [OURS, *names]), _verdicts(each)] for each in outcomes]
    notes = [f"- {each.title}, {name}: {why}" for each in outcomes for name, why in each.missing.items()]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return text + ("\nNot possible:\n\n" + "\n".join(dict.fromkeys(notes)) + "\n" if notes else "")


def _cell(outcome: Outcome, name: str) -> str:
    return amount(outcome.seconds[name]) if name in outcome.seconds else "-"


def amount(seconds: float) -> str:
    """Seconds with three digits and a unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _verdicts(outcome: Outcome) -> str:
    return "; ".join(
        f"{peer} {ratio:.2f} ({target.factor:.2f}): {'met' if ratio >= target.factor else '**missed**'}"
        for target, peer, ratio in outcome.verdicts
    )
