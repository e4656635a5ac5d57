"""A backend for hdmf and pynwb: their builders, read from and written to our datasets."""

from hyperslab.bridges.hdmf.backend import HyperslabIO
from hyperslab.bridges.hdmf.data_io import HyperslabDataIO

__all__ = ["HyperslabDataIO", "HyperslabIO"]
