"""Equal orders have equal fingerprints in every process, others have others."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from hyperslab.conversion.journal import digest, require_same_order
from hyperslab.errors import Invalid
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import ArraySpec, GroupSpec

VALUES: list[Any] = [
    None,
    True,
    1,
    1.0,
    "1",
    b"1",
    "",
    [],
    {},
    [1, [2]],
    [[1], 2],
    ["ab", "c"],
    ["a", "bc"],
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    np.float32(1),
    np.float64(1),
    np.array([1, 2], "i2"),
    np.array([1, 2], ">i2"),
    np.array([[1], [2]], "i2"),
    np.array([1, None], object),
    np.array(["a"], np.dtypes.StringDType()),
    np.zeros(5000),
    np.append(np.zeros(4999), 1),
    float("nan"),
    slice(0, 5),
    GroupSpec(dims=(Dimension("t", 3, True),)),
    GroupSpec(dims=(Dimension("t", 3, False),)),
    ArraySpec(shape=(3,), dtype=np.dtype("f4"), chunks=(3,)),
    ArraySpec(shape=(3,), dtype=np.dtype("f8"), chunks=(3,)),
]


def test_all_differ() -> None:
    assert len({digest(value) for value in VALUES}) == len(VALUES)
    assert [digest(value) for value in VALUES] == [digest(value) for value in VALUES]


@dataclass
class Plain:
    """A value with one that has no repr of its own."""

    inner: object


def test_nothing_depends_on_addresses_or_on_the_process() -> None:
    assert digest(Plain(object())) == digest(Plain(object()))
    plain = {"a": ArraySpec(shape=(3,), dtype=np.dtype("f4"), chunks=(3,)), "b": {"x": {1, 2}}}
    program = (
        "import numpy as np\nfrom hyperslab.conversion.journal import digest\n"
        "from hyperslab.model.spec import ArraySpec\n"
        "print(digest({'a': ArraySpec(shape=(3,), dtype=np.dtype('f4'), chunks=(3,)), 'b': {'x': {1, 2}}}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == f"{digest(plain)}\n"


def test_every_difference_is_said() -> None:
    now = {"journal": 1, "version": "1", "source": "a", "format": "zarr3", "documents": "d", "values": "v"}
    now |= {"options": {"codec": "None"}}
    require_same_order({**now, "place": 5}, now, "here")
    before = {**now, "version": "0", "values": "w", "options": {"codec": "'zstd'"}}
    with pytest.raises(Invalid, match=r"(?s)version.*files changed.*codec was 'zstd', not None.*here") as caught:
        require_same_order(before, now, "here")
    assert "documents" not in str(caught.value)
