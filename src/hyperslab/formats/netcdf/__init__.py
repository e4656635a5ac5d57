"""netCDF: classic files (CDF-1, CDF-2, CDF-5) and netCDF-4 in HDF5, through the netCDF library and beside it.

Specification: NetCDF Users Guide and "NetCDF File Format Specifications" (Unidata). The model is the one that hyperslab
has: groups, shared dimensions (some unlimited), typed attributes, user types. An example, as ``ncdump -h`` shows it::

    netcdf air {
    dimensions:
        time = UNLIMITED ; // (240 currently)
        lat = 37 ;
    variables:
        float air_temperature(time, lat) ;
            air_temperature:units = "K" ;
    }

Reading: metadata by the library, cells by pread and our codecs where the layout is known, else by the library.
Writing: a working copy beside the file that takes its place when the dataset is closed.

``data_model``
    What each model can hold, and how a spec looks as netCDF gives it back; pure.
``classic``
    The header of a netCDF-3 file.
``library``
    The netCDF library: calls under its lock, its errors as ours, the cells of one variable through it.
``open_file``, ``parser``, ``reader``
    A file open for reading, specs out of its handles, and the Reader of both.
``remote``
    The Reader of a file on a server, over a sparse local copy.
``working_copy``, ``definitions``, ``writer``
    The file that is written and what it holds so far, how nodes are made in it, and the Writer.

What HDF5 files of other formats need too is in :mod:`hyperslab.formats.hdf5`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.base import Feature, Format, FormatInfo, FormatTraits, Mode, Reader, Variant
from hyperslab.formats.format_errors import file_not_found
from hyperslab.formats.hdf5.file import HDF5_MAGIC
from hyperslab.formats.netcdf import data_model, library
from hyperslab.formats.netcdf.classic import MAGICS
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.stores.location import REMOTE, Location, Probe

_NO_TYPE = "netCDF has no such type"
_NOTES = {
    Feature.DIMENSIONS: "declared in groups; a second length of one name is stored as `name@length`",
    Feature.VLEN: "bytes: arrays of `ubyte` of any length",
    **dict.fromkeys((Feature.COMPLEX, Feature.DATETIME, Feature.FLOAT16, Feature.UNICODE), _NO_TYPE),
    Feature.BOOLEAN: "the enum `FALSE`, `TRUE` of `byte`, as h5py has it; in the model `NETCDF4` alone",
    Feature.FIXED_BYTES: _NO_TYPE + " but arrays of chars, whose shape is another",
    Feature.VARYING_CHUNKS: "HDF5 has one length per dimension",
    Feature.SHARDS: "HDF5 has none",
    Feature.LINKS: "HDF5 has them, the netCDF library follows none",
    Feature.REFERENCES: "HDF5 has them, netCDF has no such type",
    Feature.UNITS: "the attribute `units`",
}
# HDF5's signature may stand behind a user block. A probe looks behind those that end within the first 4 KiB; a file
# that is opened as netCDF by name may have a longer one (open_file.file_kind).
_USER_BLOCKS = (512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class NetcdfFormat(Format):
    """Format ``netcdf``; options ``model`` (a new file's data model) and ``fast`` (cells by pread)."""

    name = "netcdf"
    features = data_model.FEATURES
    info = FormatInfo(
        "netcdf",
        "groups, shared and unlimited dimensions, typed attributes, user types, in one file",
        "the first bytes: CDF\\x01, CDF\\x02, CDF\\x05 or \\x89HDF",
        True,
        (Variant("netcdf", data_model.FEATURES, notes=_NOTES),),
    )
    traits = FormatTraits(
        dimension_scope="group",
        shares_lengths=True,
        netcdf_attributes=True,
        marks_nan=True,
        kept_layout=frozenset({data_model.NO_FILL}),
    )

    def sniff(self, probe: Probe) -> bool:
        """Return True if the place is one file with the mark of netCDF-3 or HDF5, also behind a user block."""
        if probe.head(4) in MAGICS or probe.head(8) == HDF5_MAGIC:
            return True
        head = probe.head(_USER_BLOCKS[-1] + 8)
        return any(head[place : place + 8] == HDF5_MAGIC for place in _USER_BLOCKS)

    def open(
        self,
        where: Location,
        mode: Mode,
        *,
        settings: Settings = DEFAULTS,
        remembered: Probe | None = None,
        model: str = "NETCDF4",
        fast: bool = True,
    ) -> Reader:
        """Open or make a file of the local file system, or read one on a server by byte ranges.

        NotFound, FormatError, AlreadyExists, Unsupported.
        """
        if model not in data_model.MODELS:
            raise Invalid(f"model {model!r}", remedy=f"a model is one of {', '.join(data_model.MODELS)}")
        library.netcdf4()
        if where.scheme != "file" or where.path is None:
            return _on_a_server(where, mode, fast)
        if mode == "r":
            return NetcdfReader(where.path, where.url, fast=fast)
        from hyperslab.formats.netcdf.writer import NetcdfWriter  # on use: what writes is a third of this folder

        return NetcdfWriter(where.path, where.url, mode, model, settings)


def _on_a_server(where: Location, mode: Mode, fast: bool) -> Reader:
    from hyperslab.formats.netcdf.remote import RemoteNetcdfReader

    if where.scheme not in REMOTE:
        remedy = "copy the file to this machine, or convert it to zarr3"
        raise Unsupported("netCDF files are read and written in the local file system", url=where.url, remedy=remedy)
    if mode != "r":
        remedy = "write it in the local file system and copy it there, or use zarr3"
        raise Unsupported("netCDF files are written in the local file system", url=where.url, remedy=remedy)
    file = where.remote_file()
    if file is None:
        raise file_not_found(where.url)
    return RemoteNetcdfReader(file, fast=fast)


FORMAT = NetcdfFormat()
