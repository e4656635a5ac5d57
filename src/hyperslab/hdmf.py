"""A backend of hdmf and pynwb: their files as Zarr datasets, read, written, appended to and exported."""

from hyperslab.bridges.hdmf import HyperslabDataIO, HyperslabIO

__all__ = ["HyperslabDataIO", "HyperslabIO"]
