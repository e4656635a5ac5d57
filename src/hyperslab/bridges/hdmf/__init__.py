"""A backend for hdmf and pynwb: their builders, read from and written to our datasets.

- ``backend``: HyperslabIO, which hdmf calls to read, write and export; ``schemas``: namespaces that a file keeps
- ``builder_reader``: builders of an open file; ``datasets``: arrays as hdmf takes them, HyperslabDataIO
- ``write_plan``: builders as groups, links and datasets by path; ``builder_writer``: these into a dataset
- ``builder_values``: types, cells and attributes of builders as ours; ``hdf5_regions``: regions from and to h5py
"""

from hyperslab.bridges.extras import hdmf
from hyperslab.bridges.hdmf.backend import HyperslabIO
from hyperslab.bridges.hdmf.datasets import HyperslabDataIO

assert hdmf  # asked for first, so that it is named where it is missing

__all__ = ["HyperslabDataIO", "HyperslabIO"]
