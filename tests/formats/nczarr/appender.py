"""A process that appends rows to one array or to all along a dimension: ``appender.py PLACE NUMBER TIMES``."""

from __future__ import annotations

import sys

import numpy as np

import hyperslab as hs

place, number, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
root = hs.open_group(place, "r+", lock_timeout=120, durable=False)
for step in range(times):
    mark = number * 1000 + step
    with root.batch():
        root["a"].append(np.full((1, 4), mark, "f8"))
        root["t"].append(np.array([mark], "i8"))
        root["deep/b"].append(np.full((2, 1), mark, "f4"), dim="t")
    root["lone"].append(np.array([mark, mark], "i8"))
