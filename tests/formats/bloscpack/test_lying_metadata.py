"""Metadata that describe other cells than the chunks hold cost none: no repair touches a sound chunk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from blp_files import blp, chunk, section, text_of

import hyperslab as hs
from hyperslab.errors import FormatError

CELLS = np.arange(1, 101, dtype="<f8")
LIES = {
    "of 4 bytes": {"dtype": "'<f4'"},
    "of one byte": {"dtype": "'|i1'"},
    "of other numbers": {"dtype": "'<i8'"},
    "of 3 bytes": {"dtype": "'|S3'"},
    "of 16 bytes": {"dtype": "'|S16'"},
    "half as long": {"shape": [50]},
    "twice as long": {"shape": [200]},
    "of two axes": {"shape": [10, 10]},
}


@pytest.mark.parametrize("checksum", [0, 1])
@pytest.mark.parametrize("lie", LIES)
def test_sound_chunks_stay_whatever_the_metadata_say(lie: str, checksum: int, tmp_path: Path) -> None:
    chunks = [chunk(part.tobytes()) for part in np.split(CELLS, 10)]
    data = blp(chunks, section(text_of(CELLS, **LIES[lie])), checksum=checksum)
    place = tmp_path / "a.blp"
    place.write_bytes(data)
    with suppress(FormatError):  # of fewer cells than the metadata say, a file is not opened at all
        list(hs.repair(place, deep=True, dry_run=False))
    assert place.read_bytes().endswith(data[data.index(chunks[0]) :])
