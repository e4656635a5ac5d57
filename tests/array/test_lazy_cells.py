"""Arrays of dask and sparse are known without an import of either, and nothing else is taken for one."""

from __future__ import annotations

import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
import sparse

from hyperslab.array.lazy_cells import is_any_sparse, is_dask_array, is_sparse, is_sparse_in_blocks

DENSE = np.eye(4)
COO = sparse.COO.from_numpy(DENSE)


class OwnCOO(sparse.COO):  # type: ignore[misc]
    """A user's own kind of array."""


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (DENSE, ""),
        (3.0, ""),
        (dask.delayed(DENSE), ""),
        (da.from_array(DENSE, chunks=2), "dask"),
        (COO, "sparse"),
        (OwnCOO.from_numpy(DENSE), "sparse"),
        (sparse.GCXS.from_coo(COO), "sparse"),
        (da.from_array(COO, chunks=2, asarray=False), "dask blocks"),
    ],
)
def test_what_a_value_is(value: object, kinds: str) -> None:
    assert is_dask_array(value) == ("dask" in kinds)
    assert is_sparse(value) == ("sparse" in kinds)
    assert is_sparse_in_blocks(value) == ("blocks" in kinds)
    assert is_any_sparse(value) == ("sparse" in kinds or "blocks" in kinds)


def test_nothing_is_imported_for_the_question() -> None:
    code = (
        "import sys, numpy as np\n"
        "from hyperslab.array.lazy_cells import is_any_sparse, is_dask_array\n"
        "assert not is_any_sparse(np.zeros(1)) and not is_dask_array(np.zeros(1))\n"
        "assert not {'dask', 'sparse'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
