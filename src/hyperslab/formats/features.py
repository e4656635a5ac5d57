"""What formats can hold, declared once per format and variant: what ``convert``, ``check`` and people read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Feature(StrEnum):
    """What a format can hold; ``convert`` and ``check`` ask."""

    GROUPS = "groups"
    ARRAYS = "several arrays"
    DIMENSIONS = "dimension names"
    UNLIMITED = "unlimited dimensions"
    ATTRIBUTES = "attributes"
    TYPED_ATTRIBUTES = "attribute dtypes"
    STRINGS = "variable-length strings"
    VLEN = "variable-length arrays"
    STRUCTURED = "structured types"
    SUBARRAYS = "sub-array fields"
    USER_TYPES = "named types (enum, opaque, compound)"
    CHAR = "char"
    COMPLEX = "complex numbers"
    BOOLEAN = "booleans"
    DATETIME = "datetime64 and timedelta64"
    FLOAT16 = "float16"
    UNICODE = "fixed-length unicode"
    FIXED_BYTES = "fixed-length bytes"
    BIG_ENDIAN = "big-endian cells"
    SCALARS = "0-d arrays"
    CHUNKS = "chunks"
    VARYING_CHUNKS = "varying chunk sizes"
    SHARDS = "shards"
    CODECS = "codecs"
    CHECKSUMS = "checksums"
    LINKS = "links"
    REFERENCES = "references"
    SPARSE = "sparse arrays"
    LABELS = "labels of dimensions"
    UNITS = "units"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way in which a format is written: what it can hold that way, and ``options`` of ``create`` and ``convert`` that
    ask for it. ``notes``: why it lacks a feature, or how it has it, where that does not go without saying."""

    name: str
    features: frozenset[Feature] = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[Feature, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "notes", {feature: self.notes[feature] for feature in Feature if feature in self.notes}
        )


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """One line of ``list_formats``. ``variants``: the first one is what a new dataset becomes."""

    name: str
    holds: str
    recognised_by: str
    writable: bool
    variants: tuple[Variant, ...] = ()
