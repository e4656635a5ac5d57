"""Encode the variables of a Dataset (CF, by xarray's own rules), and check how each is to be stored."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from xarray import conventions
from xarray.coding.strings import CharacterArrayCoder
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.array.lazy_cells import is_any_sparse, is_sparse
from hyperslab.array.narrowing import require_fit
from hyperslab.bridges.xarray.fitting import can_cast_text, fits_text
from hyperslab.bridges.xarray.storable import typed
from hyperslab.chunks.auto import parse_shards
from hyperslab.errors import Invalid
from hyperslab.model.attrs import FILL_VALUE, check_levels
from hyperslab.model.calendars import unit_length

# -- numbers that are to be stored as another type, which may not hold them; those of dask are checked by blocks -------

_MARKERS = (FILL_VALUE, "missing_value")
_SCALING = (("scale_factor", 1), ("add_offset", 0))


@dataclass(frozen=True)
class Packing:
    """The dtype and scale that numbers are stored with. ``marks``: a value stands for NaN; ``rounds``: fractions become
    whole numbers where the dtype has no others."""

    name: str
    dtype: np.dtype
    scale: float
    offset: float
    marks: bool
    rounds: bool

    def check(self, cells: Any) -> Any:
        """Return the same cells. Invalid for numbers that the stored type would hold otherwise; floats may be
        rounded."""
        values = np.append(cells.data, cells.fill_value) if is_sparse(cells) else np.asarray(cells)
        if values.dtype.kind == "c" and self.dtype.kind != "c":
            raise self._refusal("complex numbers")
        if (self.scale, self.offset) != (1, 0):
            if values.dtype.kind in "biu":  # as xarray packs them: whole numbers would wrap around
                values = values.astype("f8")
            values = (values - self.offset) / self.scale
        match self.dtype.kind:
            case "i" | "u":
                self._check_whole(values)
                return cells
            case "b":
                lost = values != values.astype(bool)
            case _:
                with np.errstate(over="ignore", invalid="ignore"):
                    lost = np.isinf(values.astype(self.dtype)) & np.isfinite(values)
        if lost.any():
            raise self._refusal(str(values[lost].flat[0]))
        return cells

    def _check_whole(self, values: np.ndarray) -> None:
        if values.dtype.kind == "f":
            missing = np.isnan(values)
            if missing.any() and not self.marks:
                raise self._refusal("NaN", "say which number stands for it: encoding _FillValue")
            values = values[~missing]
            if not self.rounds and (self.scale, self.offset) == (1, 0) and (lost := values != np.rint(values)).any():
                raise self._refusal(str(values[lost][0]), "round the cells first, or store the variable anew as floats")
        if not values.size:
            return
        low, high = values.min().item(), values.max().item()
        bounds = np.iinfo(self.dtype)
        if low < bounds.min - 0.5 or (high >= bounds.max + 0.5 if values.dtype.kind == "f" else high > bounds.max):
            first, last = (each * self.scale + self.offset for each in (low, high))
            raise self._refusal(f"{first} to {last}")

    def _refusal(self, what: str, instead: str = "store it with another dtype, scale_factor or add_offset") -> Invalid:
        return Invalid(f"{self.name!r} holds {what}, which cells of {self.dtype} cannot", remedy=instead)


def checked(name: str, variable: xr.Variable, encoding: Mapping[str, Any], *, rounds: bool = True) -> xr.Variable:
    """Return the same variable. Invalid where ``encoding`` stores its numbers as a type that does not hold them: at
    once where they are in memory, when a block is computed where they are of dask."""
    packing = _packing(name, variable, encoding, rounds=rounds)
    if packing is None:
        return variable
    if is_chunked_array(variable._data):
        data = variable.data.map_blocks(packing.check, dtype=variable.dtype, meta=getattr(variable.data, "_meta", None))
        return variable.copy(deep=False, data=data)
    packing.check(variable._data if is_sparse(variable._data) else variable.values)
    return variable


def _packing(name: str, variable: xr.Variable, encoding: Mapping[str, Any], *, rounds: bool) -> Packing | None:
    """Return how numbers are packed; None where every number is stored as it is."""
    wanted = encoding.get("dtype")
    if wanted is None or wanted is str or variable.dtype.kind not in "biufc":
        return None
    dtype = _number_type(np.dtype(wanted), encoding)
    scale, offset = (np.asarray(encoding.get(word, plain)).item() for word, plain in _SCALING)
    if dtype.kind not in "biufc" or (dtype == variable.dtype and (scale, offset) == (1, 0)):
        return None
    marks = any(encoding.get(word, variable.attrs.get(word)) is not None for word in _MARKERS)
    return Packing(name, dtype, scale, offset, marks, rounds)


def _number_type(dtype: np.dtype, encoding: Mapping[str, Any]) -> np.dtype:
    """Return the type of the numbers that cells of ``dtype`` stand for: ``_Unsigned`` makes them those of the other
    kind."""
    if encoding.get("_Unsigned") in ("true", "false") and dtype.kind in "iu":
        return np.dtype(f"{'u' if encoding['_Unsigned'] == 'true' else 'i'}{dtype.itemsize}")
    return dtype


# -- what an encoding may say ------------------------------------------------------------------------------------------

CF = frozenset(
    {
        "dtype",
        "units",
        "calendar",
        "scale_factor",
        "add_offset",
        FILL_VALUE,
        "missing_value",
        "_Unsigned",
        "coordinates",
        "char_dim_name",
        "_Encoding",
        *conventions.CF_RELATED_DATA,
    }
)
"""The words that xarray's encoders take, and the links that ``decode_coords="all"`` moves there from the attributes."""
_LINKS = frozenset({"_Encoding", *conventions.CF_RELATED_DATA}) - {"grid_mapping"}
"""Those of them that are rather attributes."""
DECODED = ("scale_factor", "add_offset", "missing_value", "_Unsigned", "calendar", "dtype")
"""Attributes by which stored numbers are read as others; they go when cells come that were encoded without them."""
STORED = frozenset({"chunks", "shards", "codec", "checksum", "fill_value"})
"""The words that ``create_array`` takes."""
_COMPRESSION = (
    "zlib",
    "complevel",
    "compression",
    "compression_opts",
    "compressor",
    "compressors",
    "filters",
    "shuffle",
)
"""The words of xarray's engines for what ``codec`` says."""
_RESOLUTIONS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds of the resolutions that times have in xarray."""
_OF_READING = frozenset({"preferred_chunks", "source", "original_shape"})
"""Words by which engines of xarray say how they read; they mean nothing to a writer."""

Encoding = Mapping[Hashable, Mapping[str, Any]]


def encoded(
    dataset: xr.Dataset,
    encoding: Encoding | None = None,
    *,
    native: str = "",
    datetimes: bool = False,
    chars: bool = False,
    marks_nan: bool = True,
    rounds: bool = True,
) -> tuple[dict[str, xr.Variable], dict[str, Any]]:
    """Return variables as they are to be stored, and the attributes of the group. ``encoding`` overrides each
    variable's own. ``native``: the kinds of cells (times, truths) that stay what they are where no encoding says
    otherwise. ``datetimes``: times stay what they are where the encoding says so. ``chars``: bytes of one length become
    chars along one more dimension, as xarray's netCDF engines store them and all read them. ``marks_nan``: floats get a
    ``_FillValue`` NaN, unless their encoding has another or None. ``rounds``: fractions are rounded where an encoding
    without a scale has whole numbers.

    Invalid for names in ``encoding`` that mean nothing.
    """
    chosen = _checked(dataset, encoding or {})
    dataset = dataset.copy()
    for name, variable in dataset.variables.items():
        wanted = chosen.get(name, {})
        dataset[name].encoding = {**_own_encoding(variable, wanted), **wanted}
    variables, attrs = conventions.encode_dataset_coordinates(dataset)
    stored = {
        str(name): _encode(str(name), variable, native, datetimes, marks_nan, rounds)
        for name, variable in variables.items()
    }
    return {name: _as_chars(name, variable) if chars else variable for name, variable in stored.items()}, dict(attrs)


def _checked(dataset: xr.Dataset, encoding: Encoding) -> Encoding:
    """Return the encodings without what is None or says nothing, ``chunksizes`` as the chunks that they are."""
    result: dict[Hashable, dict[str, Any]] = {}
    for name, wanted in encoding.items():
        if name not in dataset.variables:
            raise Invalid(f"encoding for {name!r}, which is no variable", remedy=f"there are {list(dataset.variables)}")
        if not isinstance(wanted, Mapping):
            remedy = "give a mapping, such as {'dtype': 'i2', 'scale_factor': 0.1}"
            raise Invalid(f"encoding of {name!r} is {wanted!r}", remedy=remedy)
        known = {key: value for key, value in wanted.items() if key not in _OF_READING}
        if "chunksizes" in known:
            known.setdefault("chunks", known.pop("chunksizes"))
        if unknown := sorted(known.keys() - CF - STORED):
            remedy = f"known are {', '.join(sorted((CF | STORED) - _LINKS))}"
            if unknown[0] in _COMPRESSION:
                remedy = "say codec='shuffle+zlib:4' or codec='blosc:zstd:5', for instance"
            raise Invalid(f"encoding of {name!r}: {unknown[0]!r} means nothing here", remedy=remedy)
        parse_shards(known.get("shards"), f"encoding of {name!r}: shards")
        dtype = known.get("dtype")
        try:
            np.dtype(dtype)
        except (TypeError, ValueError) as error:
            remedy = "give one of NumPy, such as 'i2' or 'float32'"
            raise Invalid(f"encoding of {name!r}: dtype {dtype!r}: {error}", remedy=remedy) from None
        result[name] = known
    return result


def _own_encoding(variable: xr.Variable, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a variable's own encoding without what would contradict the wanted one, and without a type of text that
    has become too short for it."""
    stale = {"preferred_chunks", "shards", "chunksizes"} if "chunks" in wanted else set()
    own = variable.encoding.get("dtype")
    if own is not None and own not in (str, "S1"):
        dtype = np.dtype(own)
        if dtype.kind in "SU" and dtype != "S1" and not can_cast_text(variable.dtype, dtype):
            stale.add("dtype")
    return {name: value for name, value in variable.encoding.items() if name not in stale}


def _encode(
    name: str, variable: xr.Variable, native: str, datetimes: bool, marks_nan: bool, rounds: bool
) -> xr.Variable:
    words = (*STORED, "chunksizes", "char_dim_name")
    layout = {key: variable.encoding[key] for key in words if key in variable.encoding}
    plain = variable.copy(deep=False)
    plain.encoding = {key: value for key, value in variable.encoding.items() if key in CF}
    _check_clock(name, plain)
    if (dtype := np.dtype(plain.encoding.get("dtype", "f8"))).kind == "M":
        if datetimes and variable.dtype.kind == "M" and "units" not in plain.encoding:
            plain = _as_datetimes(plain, dtype)
            plain.encoding = layout
            return plain
        del plain.encoding["dtype"]  # xarray's coder would take counts of its own units for such of this type
    plain = _refine_times(name, plain)
    _keep_texts(plain)
    if "dtype" not in plain.encoding:
        plain.encoding.pop("_Unsigned", None)  # it says how cells of that type are read, not those in memory
    kind = np.dtype(plain.encoding.get("dtype", variable.dtype)).kind
    if variable.dtype.kind in native and kind == variable.dtype.kind and "units" not in plain.encoding:
        plain.encoding = layout
        return plain
    _check_text(name, plain)
    if not marks_nan or is_any_sparse(variable._data):  # the cells that no one stores are zeros there
        plain.encoding.setdefault(FILL_VALUE, None)  # else xarray's coder marks NaN
    try:
        plain = checked(name, plain, plain.encoding, rounds=rounds)
        done = typed(name, _encode_signs(name, plain))
        if done.dtype.kind == "b" or (variable.dtype.kind == "O" and done.dtype.kind == "f" and marks_nan):
            # objects that are truths or floats: xarray's coder saw objects
            done = conventions.encode_cf_variable(done, name=name)
    except Invalid:
        raise
    except (TypeError, ValueError, OverflowError, KeyError) as error:  # KeyError: units of time that xarray only reads
        remedy = f"its encoding is {plain.encoding or 'empty'}: change that, or the cells by astype()"
        raise Invalid(f"{name!r} cannot be encoded: {error}", remedy=remedy) from error
    done.encoding = layout
    return done


def _encode_signs(name: str, variable: xr.Variable) -> xr.Variable:
    """Return the encoded variable with its ``_Unsigned``, which xarray's coder writes only beside a marker of missing
    cells: without it the numbers would be read with the other sign."""
    own = variable.encoding
    dtype = np.dtype(own.get("dtype", variable.dtype))
    meant = _number_type(dtype, own)
    if meant == dtype or any(own.get(word) is not None for word in _MARKERS):
        return conventions.encode_cf_variable(variable, name=name)
    variable.encoding = {key: value for key, value in own.items() if key != "_Unsigned"} | {"dtype": meant}
    done = conventions.encode_cf_variable(variable, name=name).astype(dtype)
    done.attrs["_Unsigned"] = own["_Unsigned"]
    return done


def _check_clock(name: str, variable: xr.Variable) -> None:
    """Raise Invalid where times are to be stored by the units of timedeltas, or the other way round."""
    units = variable.encoding.get("units")
    if variable.dtype.kind not in "mM" or not isinstance(units, str):
        return
    if (variable.dtype.kind == "M") != (" since " in units):
        cells, other = ("times", "timedeltas") if variable.dtype.kind == "M" else ("timedeltas", "times")
        remedy = "leave units out, or give the variable another name"
        raise Invalid(f"{name!r} holds {cells}, in units of {other}: {units!r}", remedy=remedy)


def _refine_times(name: str, variable: xr.Variable) -> xr.Variable:
    """Return times in the resolution of the units that they are stored in where theirs is coarser: xarray 2026.9 stores
    all of these as missing. Invalid for times that the finer resolution does not reach."""
    units = variable.encoding.get("units")
    length = unit_length(units.partition(" since ")[0], "standard") if isinstance(units, str) else None
    if variable.dtype.kind not in "mM" or length is None or length >= _RESOLUTIONS["s"]:
        return variable
    finer = next(unit for unit, size in _RESOLUTIONS.items() if length % size == 0)
    dtype = np.promote_types(variable.dtype, f"{variable.dtype.kind}8[{finer}]")
    if dtype == variable.dtype:
        return variable

    def refine(cells: np.ndarray) -> np.ndarray:
        fine = cells.astype(dtype)
        if (lost := (fine.astype(cells.dtype) != cells) & ~np.isnat(cells)).any():
            remedy = "store it in coarser units"
            raise Invalid(f"{name!r} holds {cells[lost][0]}, which is out of reach for {units!r}", remedy=remedy)
        return fine

    if is_chunked_array(variable._data):
        return variable.copy(deep=False, data=variable.data.map_blocks(refine, dtype=dtype))
    return variable.copy(deep=False, data=refine(variable.values))


def _as_datetimes(variable: xr.Variable, dtype: np.dtype) -> xr.Variable:
    """Return times in the resolution of ``dtype``, as they are where that does not hold them. Invalid of a dask array
    when it is computed."""

    def cast(cells: np.ndarray) -> np.ndarray:
        require_fit(cells, dtype)
        return cells.astype(dtype)

    if is_chunked_array(variable._data):
        return variable.copy(deep=False, data=variable.data.map_blocks(cast, dtype=dtype))
    with suppress(Invalid):
        return variable.copy(deep=False, data=cast(variable.values))
    return variable


def _keep_texts(variable: xr.Variable) -> None:
    """Leave markers of missing numbers that are text, which no number equals, as the attributes that they were."""
    for word in ("missing_value", FILL_VALUE):
        if isinstance(variable.encoding.get(word), str) and variable.dtype.kind in "biufcmM":
            variable.attrs[word] = str(variable.encoding.pop(word))


def _check_text(name: str, variable: xr.Variable) -> None:
    """Raise Invalid where text is to be stored as a type that is too short for it; ``S1`` means characters."""
    wanted = variable.encoding.get("dtype")
    if wanted is None or wanted in (str, "S1") or fits_text(variable, np.dtype(wanted), lazily=False):
        return
    raise Invalid(f"{name!r} holds text that is longer than its encoding {np.dtype(wanted)}", remedy="leave dtype out")


def _as_chars(name: str, variable: xr.Variable) -> xr.Variable:
    """Return bytes of one length as chars; any other variable as it is."""
    if variable.dtype.kind != "S":
        return variable
    coder: Any = CharacterArrayCoder()
    done: xr.Variable = coder.encode(variable, name=name)
    done.encoding.pop("char_dim_name", None)
    return done


def plain_attrs(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return attributes as hyperslab takes them: names are text, booleans are numbers as in netCDF. Invalid."""
    check_levels(attrs)
    return {str(name): _plain(value) for name, value in attrs.items()}


def _plain(value: Any) -> Any:
    match value:
        case np.ndarray() if value.dtype.kind == "O":
            return value.tolist()
        case np.bool_():
            return np.int8(value)
    return value
