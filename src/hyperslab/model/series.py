"""Series of NWB: the words by which their samples are found, and when these were taken (``TimeSeries`` of NWB 2.9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.dtypes import DataType, ObjectRef, tagged_fields
from hyperslab.model.spec import ArraySpec

SERIES_TYPE = "neurodata_type"
"""The attribute of a group that is a series."""
DATA, TIMESTAMPS, STARTING_TIME = "data", "timestamps", "starting_time"
"""The names of the arrays of a series: samples, the second of each, the second of the first one."""

FIRST_SAMPLE, SAMPLE_COUNT, SERIES = "idx_start", "count", "timeseries"
"""The fields of rows that name samples of a series by number (``TimeSeriesReferenceVectorData``)."""
NO_SAMPLES = -1
"""The number in both of them of a row that names no samples."""

# How far from its second by the rate a sample may be, in steps: rounding of a starting_time, and no more.
_ROUNDING = 1e-3
# How far apart two rates of one clock may be: one is single precision.
_SAME_RATE = 1e-6


@dataclass(frozen=True, slots=True)
class SampleTimes:
    """The seconds of the first and the last sample, and between two of them; ``step`` is None where timestamps say
    that of each."""

    first: float
    last: float
    step: float | None

    @classmethod
    def of_rate(cls, first: float, rate: float, samples: int) -> SampleTimes:
        """Return the times of so many samples, ``rate`` of them in a second, from the second ``first`` on."""
        return cls(first, first + (samples - 1) / rate, 1 / rate)

    def extend(self, later: SampleTimes) -> SampleTimes:
        """Return the times of both, where those of ``later`` follow. Invalid where they do not: a starting_time and a
        rate tell only of samples without a gap."""
        remedy = "take parts that follow one another, or write the series with timestamps"
        if self.step is None or later.step is None:
            if self.step != later.step:
                raise Invalid("one part has timestamps, the other a starting_time", remedy=remedy)
            if later.first <= self.last:
                message = f"samples begin at {later.first:.9g} s, those before end at {self.last:.9g} s"
                raise Invalid(message, remedy="take parts that follow one another")
            return replace(self, last=later.last)
        if abs(later.step - self.step) > self.step * _SAME_RATE:
            message = f"samples have a rate of {1 / later.step:.9g} Hz, those before of {1 / self.step:.9g} Hz"
            raise Invalid(message, remedy=remedy)
        following = self.last + self.step
        if abs(later.first - following) > self.step * _ROUNDING:
            message = f"samples begin at {later.first:.9g} s, those before and their rate lead to {following:.9g} s"
            raise Invalid(message, remedy=remedy)
        return replace(self, last=following + later.last - later.first)


def names_samples(dtype: DataType) -> bool:
    """Return True for rows that name samples of a series by number."""
    if not isinstance(dtype, np.dtype) or not {FIRST_SAMPLE, SAMPLE_COUNT} <= {*(dtype.names or ())}:
        return False
    is_signed = dtype[FIRST_SAMPLE].kind == dtype[SAMPLE_COUNT].kind == "i"
    return is_signed and any(name == SERIES and isinstance(kind, ObjectRef) for name, kind in tagged_fields(dtype))


def sample_rate(start: ArraySpec) -> float:
    """Return the samples in a second that a starting_time says, one number with the attribute ``rate``; 0 without."""
    is_number = start.shape == () and start.numpy_dtype.kind in "iuf"
    return max(finite_number(start.attrs.get("rate"), 0.0), 0.0) if is_number else 0.0


def finite_number(value: object, otherwise: float) -> float:
    """Return the finite number that an attribute holds, also as an array of one."""
    cells = np.asarray(value)
    if cells.size != 1 or cells.dtype.kind not in "iuf" or not np.isfinite(cells).all():
        return otherwise
    return float(cells.ravel()[0])
