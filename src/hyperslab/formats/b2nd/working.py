"""The cells of an array that is being made or changed: a file beside the dataset, which takes its place when closed."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.errors import HyperslabError
from hyperslab.formats.b2nd import document, library
from hyperslab.formats.library_array import Part
from hyperslab.formats.one_array import is_label
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.building import remove, sibling
from hyperslab.stores.files import write_error


class WorkingFile:
    """An array of blosc2 under a temporary name beside ``target``: a new one, or a copy of what lies there."""

    def __init__(self, target: str, url: str, settings: Settings, spec: ArraySpec | None = None) -> None:
        self.path = sibling(target)
        self._url = url
        self._finish = weakref.finalize(self, _remove, self.path, os.getpid())
        threads = settings.threads
        try:
            if spec is None:
                copy = shutil.copytree if os.path.isdir(target) else shutil.copy
                copy(target, self.path)
            else:
                _make(self.path, spec, threads, url)
            path = self.path
            self._handle = library.Handle(lambda: _again(path, threads), url)
        except OSError as error:
            self.discard()
            if isinstance(error, HyperslabError):
                raise
            raise write_error(error, url, os.path.basename(target)) from error
        except BaseException:
            self.discard()
            raise

    def read(self, part: Part, out: np.ndarray[Any, Any]) -> None:
        """Read cells."""
        self._handle.read(part, out)

    def write(self, part: Part, cells: np.ndarray[Any, Any]) -> None:
        """Write cells."""
        self._handle.write(part, cells)

    def resize(self, old: ArraySpec, new: ArraySpec) -> None:
        """Another shape; new cells hold the fill value, also where the array once was longer."""
        with self._handle.using() as array, library.writing(self._url):
            array.resize(new.shape)
        for part in fresh(old.shape, new.shape):
            for piece in _pieces(part, new):
                size = tuple(cut.stop - cut.start for cut in piece)
                self.write(piece, new.filled(size))

    def describe(self, wanted: Mapping[str, Any]) -> None:
        """Make the metalayers those that are wanted; others of ours go, and what is none of ours and no attribute
        stays."""
        with self._handle.using() as array, library.writing(self._url):
            layers = array.schunk.vlmeta
            known = layers.getall()
            for key, value in known.items():
                if key not in wanted and (is_label(key, value) or document.is_plain(value)):
                    del layers[key]
            for key, value in wanted.items():
                if key not in known or document.as_lists(known[key]) != value:
                    layers[key] = value

    def settle(self) -> str:
        """Let go of the file, which is complete; whoever asked gives it its name."""
        self._handle.close()
        self._finish.detach()
        return self.path

    def discard(self) -> None:
        """Remove the file."""
        if hasattr(self, "_handle"):
            self._handle.close()
        self._finish()


def _make(path: str, spec: ArraySpec, threads: int, url: str) -> None:
    """A new file in which every cell holds the fill value."""
    module = library.blosc2()
    words = document.compression_of(spec.codecs)
    filters = [getattr(module.Filter, name) for name in words["filters"]] or [module.Filter.NOFILTER]
    params = module.CParams(
        codec=getattr(module.Codec, words["codec"]),
        clevel=words["clevel"],
        typesize=spec.numpy_dtype.itemsize,
        nthreads=threads,
        filters=[*[module.Filter.NOFILTER] * (6 - len(filters)), *filters],
    )
    options: dict[str, Any] = {"chunks": spec.chunks} if spec.shape else {}
    options |= {"dtype": spec.numpy_dtype, "urlpath": path, "contiguous": True, "mode": "w"}
    options |= {"cparams": params, "dparams": module.DParams(nthreads=threads)}
    fill = spec.fill_cell()
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))  # which tells why a place takes no file; blosc2 does not
    with library.writing(url):
        if any(fill.tobytes()):
            module.full(spec.shape, fill[()], **options)
        else:
            module.zeros(spec.shape, **options)


def _again(path: str, threads: int) -> Any:
    module = library.blosc2()
    return module.open(path, mode="a", dparams=module.DParams(nthreads=threads))


def fresh(old: tuple[int, ...], new: tuple[int, ...]) -> list[Part]:
    """The cells of ``new`` that ``old`` does not have, as parts that do not overlap."""
    parts = []
    for axis, (before, after) in enumerate(zip(old, new, strict=True)):
        if after > before:
            kept = tuple(slice(0, min(a, b)) for a, b in zip(old[:axis], new[:axis], strict=True))
            parts.append((*kept, slice(before, after), *(slice(0, length) for length in new[axis + 1 :])))
    return [part for part in parts if all(cut.stop > cut.start for cut in part)]


def _pieces(part: Part, spec: ArraySpec) -> list[Part]:
    """A part cut along the chunks of the array."""
    grid = Grid.of(spec.shape, spec.chunks)
    ranges = [
        range(axis.find(cut.start), axis.find(cut.stop - 1) + 1) for axis, cut in zip(grid.axes, part, strict=True)
    ]
    inner = Grid.of(tuple(map(len, ranges)), (1,) * len(ranges))
    pieces = []
    for place in inner:
        extent = grid.extent(tuple(numbers[i] for numbers, i in zip(ranges, place, strict=True)))
        pieces.append(
            tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(extent, part, strict=True))
        )
    return pieces


def _remove(path: str, owner: int) -> None:
    """Remove the temporary file, in the process that made it."""
    if os.getpid() == owner:
        with suppress(OSError):
            remove(path)
