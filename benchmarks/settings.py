"""The libraries that are measured: the package whose version is told, and at which setting each runs.

``name==version`` is one that stands in an environment of its own.
"""

from __future__ import annotations

import platform
import shutil
import subprocess


def _nginx() -> str:
    """The version of nginx, which is no package of Python."""
    program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    said = "" if program is None else subprocess.run([program, "-v"], capture_output=True, text=True).stderr
    return f"nginx=={said.rpartition('/')[2].split()[0] if said else 'none'}"


_KERNEL = f"kernel=={platform.release()}"
SETTINGS = {
    "hyperslab": ("hyperslab", "defaults, cache_bytes=0, checksums of what it writes off as for all"),
    "without engine": ("hyperslab", "the same with HYPERSLAB_NATIVE=0"),
    "bare files": (_KERNEL, "no library: os.open, os.readv or os.write, os.close of the same bytes in as many files"),
    "bare decoder": ("numcodecs", "no format: os.pread and Blosc of the same chunks, without their checksums"),
    "zarr-python": ("zarr", "defaults (async.concurrency 10), LocalStore"),
    "zarr + zarrs": ("zarrs", "codec_pipeline.path = zarrs.ZarrsCodecPipeline, else defaults"),
    "tensorstore": ("tensorstore", "defaults (as many threads as cores), cache_pool 0; file_io_sync as the row says"),
    "netCDF4": ("netCDF4", "set_auto_maskandscale(False), chunk cache of 64 MiB"),
    "engine zarr": ("xarray", "xarray's own engine, over zarr-python as above, consolidated metadata"),
    "zarr + obstore": ("obstore", "zarr-python's ObjectStore, else defaults"),
    "zarr + s3fs": ("s3fs", "zarr-python's FsspecStore, else defaults"),
    "nginx": (_nginx(), "sendfile, as many workers as cores, no log"),
    "http.server": (f"http.server=={platform.python_version()}", "Python's own, --protocol HTTP/1.1"),
    "xpublish": ("xpublish", "with xpublish-zarr, at its defaults (zstd), over xarray.open_zarr in the stored chunks"),
    "bloscpack": ("bloscpack", "as the row says, by python-blosc with as many threads as cores"),
    "np.save": ("numpy", "np.save and np.load"),
    "blosc2 .b2nd": ("blosc2", "blosc2.open, as many threads as cores"),
    "xarray_mongodb": ("xarray-mongodb", "defaults; documents as the row says"),
    "raw pymongo": ("pymongo", "insert_many and find of the same bytes, by one thread; journaled as hyperslab's are"),
    "HDF5IO": ("pynwb", "pynwb's NWBHDF5IO at its defaults: datasets in one piece, uncompressed"),
    "hdmf-zarr": (
        "hdmf-zarr==0.13.0",
        "NWBZarrIO at its defaults, Blosc-lz4; in an environment of its own",
    ),
    "DEKER": (
        "deker==1.1.7",
        "defaults but loglevel CRITICAL; the client stays open; in an environment of its own",
    ),
    "h5py": ("h5py", "rdcc_nbytes 64 MiB, hdf5plugin's filters, libver latest"),
}
