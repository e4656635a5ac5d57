"""Memory that is refused before it is allocated, and pages that go back to the system."""

import numpy as np
import pytest

from hyperslab.chunks.memory import empty_cells


@pytest.mark.parametrize("shape", [(1 << 62,), (1 << 40, 1 << 22)])
def test_more_cells_than_the_system_has_room_for_are_a_memory_error(shape: tuple[int, ...]) -> None:
    """As with NumPy: the system's own error would be taken for a failure of the disk."""
    with pytest.raises(MemoryError):
        empty_cells(shape, np.dtype("u1"))


@pytest.mark.parametrize("count", [3, 1 << 20])
def test_cells_are_of_the_shape_and_type_and_can_be_written(count: int) -> None:
    cells = empty_cells((2, count), np.dtype("<f4"))
    cells[...] = 1.5
    assert (cells.shape, cells.dtype) == ((2, count), np.dtype("<f4"))
    assert cells.flags.c_contiguous and (cells == 1.5).all()
