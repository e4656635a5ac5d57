"""``Array``: a spec and a source of chunks; NumPy's keys, labels, lazily composed views, writes, growth."""

from hyperslab.array.array import Array
from hyperslab.array.cells import ReadPlan
from hyperslab.array.view import View

__all__ = ["Array", "ReadPlan", "View"]
