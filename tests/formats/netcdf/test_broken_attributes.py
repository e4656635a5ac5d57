"""Attributes that cannot be decoded: the netCDF library frees memory twice when it closes such a file."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from programs import ran

USES = """
import gc, sys
import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, StorageError
path, sound = sys.argv[1:]
for _ in range(2):
    for use in (hs.open, lambda path: dict(hs.open_group(path).attrs), hs.check, hs.repair):
        try:
            use(path)
        except (CorruptChunk, FormatError) as error:
            assert error.url, error
        gc.collect()
print(len(hs.check(sound)))
open(path, "wb").write(open(sound, "rb").read())
try:
    hs.open(path)
except StorageError as error:
    print("another process" in str(error))
with hs.open_group(sound) as root:
    print(root["x"][:].tolist())
"""


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("owner", "value"), [("group", "abc"), ("variable", ["a", "bc"])])
def test_a_file_with_one_ends_no_process(tmp_path: Path, owner: str, value: str | list[str]) -> None:
    sound, path = tmp_path / "sound.nc", tmp_path / "a.nc"
    with h5py.File(sound, "w", libver="earliest", track_order=True) as file:
        made = file.create_dataset("x", data=np.arange(4))
        made.make_scale("x")
        (file if owner == "group" else made).attrs["s"] = value
    shutil.copy(sound, path)
    data = bytearray(path.read_bytes())
    data[data.index(b"GCOL") + 16] = 0  # the first text is none any more
    path.write_bytes(data)
    done = ran(USES, path, sound)
    assert (done.returncode, done.stdout.split("\n", 1)) == (0, ["0", "True\n[0, 1, 2, 3]\n"]), done.stderr[-2000:]
