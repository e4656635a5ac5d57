"""A backend for hdmf and pynwb: their builders, read from and written to our datasets."""

from hyperslab.bridges.extras import hdmf
from hyperslab.bridges.hdmf.backend import HyperslabIO
from hyperslab.bridges.hdmf.datasets import HyperslabDataIO

assert hdmf  # asked for first, so that it is named where it is missing

__all__ = ["HyperslabDataIO", "HyperslabIO"]
