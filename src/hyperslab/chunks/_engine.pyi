from collections.abc import Sequence

import numpy as np

sums_by_processor: bool
source_sum: int

def crc32c(data: bytes | bytearray | memoryview | np.ndarray) -> int: ...
def use_library(addresses: tuple[int, ...]) -> None: ...

class Job:
    def __new__(
        cls,
        groups: tuple[list[tuple[int, ...]], ...],
        shape: tuple[int, ...],
        out: np.ndarray,
        out_strides: tuple[int, ...],
        fill: bytes,
        whole_only: bool,
        folder: int,
        nested: bool,
        compressor: int,
        checksum: bool,
        most: int,
        members: tuple[int, ...] | None,
        most_in_shard: int,
        most_in_index: int,
        index_first: bool,
        index_checksum: bool,
        readable: int,
        swap: int,
        order: tuple[int, ...],
        shuffle: int,
        level: int = ...,
        header: bytes = ...,
    ) -> Job: ...
    def run(
        self, low: tuple[int, ...], high: tuple[int, ...], keys: list[str], blosc: int, zstd: int, boxes: int
    ) -> tuple[int, int, list[tuple[int, ...]]]: ...
    def read_one(
        self,
        path: str,
        within: tuple[slice, ...] | None,
        out: np.ndarray,
        known: object,
        start: int,
        size: int,
        blosc: int,
        zstd: int,
        /,
    ) -> tuple[int, tuple[int, int, int] | None] | None: ...
    def close(self) -> None: ...
    def encode(self, low: tuple[int, ...], high: tuple[int, ...], target: memoryview) -> Sequence[int]: ...
    def encode_shard(self, low: tuple[int, ...], high: tuple[int, ...], target: memoryview) -> int: ...
