"""Changes a Blaze directory again and again until it is killed: ``killed.py PLACE SEED``."""

from __future__ import annotations

import sys

import numpy as np

import hyperslab as hs


def main(place: str, seed: int) -> None:
    """Whole chunks get one number each; rows are appended and taken away."""
    rng = np.random.default_rng(seed)
    root = hs.open_group(place, "r+", durable=False)
    array = root["data"]
    print("ready", flush=True)
    while True:
        number = int(rng.integers(1, 10**6))
        first = int(rng.integers(0, 64))
        match int(rng.integers(0, 3)):
            case 0:
                array[first * 10 : (first + int(rng.integers(1, 9))) * 10] = number
            case 1:
                array.append(np.full((10 * int(rng.integers(1, 9)), 2), number))
            case _:
                array.resize((640, 2))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
