"""What numcodecs makes is written into memory that was freed before: chunks cost no page faults of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.model.spec import Codec

cells = np.frombuffer(bytes(4) + os.urandom((4 << 20) - 4), "u4").copy()  # no larger block is freed before
cells &= 0xFFFF
codecs = Codec("bytes", {"endian": "little"}), Codec(sys.argv[1], {})
chain = build_chain(codecs, ChunkLayout(cells.dtype, cells.shape))

def faults():
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: len(chain.encode(cells)), range(16)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        list(pool.map(lambda _: len(chain.encode(cells)), range(32)))
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
"""


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_chunks_cost_few_page_faults(codec: str) -> None:
    # Any setting of malloc, such as MALLOC_TRIM_THRESHOLD_, stops glibc from adapting to what is freed (mallopt(3)).
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    program = [sys.executable, "-c", PROGRAM, codec]
    done = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert int(done.stdout) < 32 * 100, done.stderr  # of 1,024 pages in each chunk
