"""Text from bytes: characters joined along the last dimension, and bytes decoded by their ``_Encoding``."""

from __future__ import annotations

import numpy as np

from hyperslab.errors import FormatError
from hyperslab.model.cells import Values


def join_characters(values: Values) -> Values:
    """``S1`` cells of shape ``(..., n)`` as ``S<n>`` of shape ``(...)``."""
    length = values.shape[-1]
    if length == 0:
        return np.zeros(values.shape[:-1], "S1")
    return np.ascontiguousarray(values).view(f"S{length}").reshape(values.shape[:-1])


def decode_text(values: Values, encoding: str) -> Values:
    """Bytes as text (``StringDType``); ``FormatError`` when the encoding is unknown or the bytes are not of it."""
    if values.dtype.kind not in "SO":
        return values
    try:
        texts = [str(cell, encoding) if isinstance(cell, bytes) else str(cell) for cell in values.ravel().tolist()]
    except (LookupError, ValueError) as error:
        raise FormatError(
            f"the text cannot be decoded by _Encoding {encoding!r}: {error}",
            remedy="read the bytes as stored, without decoded()",
        ) from error
    return np.array(texts, np.dtypes.StringDType()).reshape(values.shape)
