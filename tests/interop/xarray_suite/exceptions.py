"""Tests of xarray's that do not apply, by the format that is stored, each with its reason.

They are run all the same: one that passes is an error, so that the list stays as short as it can be.
"""

from __future__ import annotations

from collections.abc import Iterable

KEYS = "encoding keys of the peer's library, for which hyperslab has codec, checksum and chunks"
OPTIONS = "options and stores of the peer's own"
WARNS = "a warning of the peer's, in its words"
NAMES = "names are text: an array without one is called data, one that is called like another thing is refused"
ONE_FILE = "what is one file is complete when save returns"
CHARACTERS = "text is stored as text, not as characters that the peer remembers by _Encoding"
LENGTHS = "text has no length that could be remembered"
BYTES = "attributes of bytes that are no text are refused"
SHARING = "blocks that share a chunk are written right, and not refused"
LABELS = "appending wants the stored labels along other dimensions, and does not replace them"
ALONE = "a region names one dimension at least"
ATTRIBUTES = "mode a sets the attributes of variables as well"
ORDER = "dimensions stand in the order of what is stored, and are not transposed unasked"
AS_A_FILE = "netCDF4 is to open what is stored as one file"
NO_TYPES = "NCZarr as netcdf-c writes it has no user types"
NO_BYTES = "NCZarr has no bytes of any length"
MARKS = "netCDF has no attribute of bytes that could mark missing ones"
BOTH = "fill_value may be said in both versions of Zarr"
WHOLE = "without a fill value every chunk is stored"
CALLS = "calls of functions of the peer's own library are counted"
OBJECTS = "what was opened from a store object is not pickled, as its place would be"
LOCKS = "a folder has a file .lock"

APPLIES = ""  # in this class, which stores nothing

_FLAT = {
    "test_roundtrip_None_variable": NAMES,
    "test_roundtrip_string_encoded_characters": CHARACTERS,
    "test_string_object_warning": WARNS,
}
_NETCDF = _FLAT | {
    "test_byte_attrs": BYTES,
    "test_compression_encoding": KEYS,
    "test_compression_encoding_legacy": KEYS,
    "test_dump_encodings": KEYS,
    "test_encoding_kwarg_compression": KEYS,
    "test_encoding_kwarg_fixed_width_string": CHARACTERS,
    "test_encoding_kwarg_vlen_string": LENGTHS,
    "test_encoding_unlimited_dims": WARNS,
    "test_keep_chunksizes_if_no_original_shape": KEYS,
    "test_netcdf_encoding": KEYS,
    "test_roundtrip_complex": OPTIONS,
    "test_roundtrip_endian": KEYS,
}
EXCEPTIONS: dict[str, dict[str, str]] = {
    "zarr": _FLAT
    | {
        "TestZarrDictStore::test_async_load_multiple_variables": CALLS,
        "TestZarrDictStore::test_chunk_key_encoding_v2": KEYS,
        "TestZarrDictStore::test_concurrent_load_multiple_objects": CALLS,
        "TestZarrDictStore::test_indexing": CALLS,
        "TestZarrDictStore::test_pickle": OBJECTS,
        "TestZarrDictStore::test_pickle_dataarray": OBJECTS,
        "TestZarrWriteEmpty::test_avoid_excess_metadata_calls": CALLS,
        "TestZarrWriteEmpty::test_write_empty": LOCKS,
        "test_append_with_append_dim_no_overwrite": LABELS,
        "test_check_encoding_is_consistent_after_append": KEYS,
        "test_chunk_encoding_with_dask": SHARING,
        "test_compressor_encoding": KEYS,
        "test_dataarray_to_zarr_align_chunks_true[Dict]": OPTIONS,
        "test_dataarray_to_zarr_compute_false": NAMES,
        "test_dataarray_to_zarr_coord_name_clash": NAMES,
        "test_dataarray_to_zarr_no_name": NAMES,
        "test_dataarray_to_zarr_with_name[Dict]": OPTIONS,
        "test_open_dataarray_options": NAMES,
        "test_read_non_consolidated_warning": WARNS,
        "test_region_scalar": ALONE,
        "test_shard_encoding_with_dask": SHARING,
        "test_to_zarr_append_compute_false_roundtrip": WARNS,
        "test_to_zarr_compute_false[zarr_format=2]": WHOLE,
        "test_to_zarr_not_consolidated": WARNS,
        "test_write_inherited_coords_true": OPTIONS,
        "test_write_preexisting_override_metadata": ATTRIBUTES,
        "test_zarr_append_chunk_partial": SHARING,
        "test_zarr_encoding": KEYS,
        "test_zarr_fill_value_setting[2-float]": BOTH,
        "test_zarr_fill_value_setting[2-int]": BOTH,
        "test_zarr_region": ORDER,
        "test_zarr_region_chunk_partial": SHARING,
        "test_zarr_region_chunk_partial_offset": SHARING,
        "test_zarr_safe_chunk_append_dim": SHARING,
        "test_zarr_safe_chunk_region": SHARING,
    },
    "netcdf": _NETCDF
    | {
        "TestDask::test_load_dataarray": NAMES,
        "TestDask::test_roundtrip_None_variable": APPLIES,
        "TestDask::test_roundtrip_string_encoded_characters": APPLIES,
        "TestNetCDF4DatatreeIO::test_compute_false": ONE_FILE,
        "test_dataarray_to_netcdf_coord_name_clash": NAMES,
        "test_dataarray_to_netcdf_no_name": NAMES,
        "test_dataarray_to_netcdf_no_name_pathlib": NAMES,
        "test_open_dataarray_options": NAMES,
        "test_roundtrip_bytes_with_fill_value": MARKS,
        "test_write_inconsistent_chunks": KEYS,
    },
    "nczarr": _NETCDF
    | {
        "test_dump_and_open_encodings": AS_A_FILE,
        "test_encoding_enum__multiple_variable_with_enum": NO_TYPES,
        "test_encoding_enum__no_fill_value": NO_TYPES,
        "test_no_redundant_dimensions": AS_A_FILE,
        "test_roundtrip_bytes_with_fill_value": NO_BYTES,
        "test_roundtrip_object_dtype": NO_BYTES,
    },
}
"""By format: functions of tests, with the parameters in brackets or the class before where only those do not apply."""


def reason(format: str, test: str) -> str:
    """Why a test, ``Class::function[parameters]``, does not apply; empty where it does."""
    found = EXCEPTIONS[format]
    return next((found[name] for name in _names(test) if name in found), APPLIES)


def unused(format: str, tests: Iterable[str]) -> list[str]:
    """The exceptions that no test is one of."""
    return sorted(set(EXCEPTIONS[format]) - {name for test in tests for name in _names(test)})


def _names(test: str) -> tuple[str, ...]:
    """What a test may be called in the list; what is said of its class counts first."""
    alone = test.rpartition("::")[2]
    return test.partition("[")[0], alone, alone.partition("[")[0]
