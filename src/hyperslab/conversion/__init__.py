"""Conversion: walk a Reader, write a Writer, in bounded memory; every loss is said before anything is copied."""

from hyperslab.chunks.progress import Progress
from hyperslab.conversion.losses import Loss
from hyperslab.conversion.report import ConversionReport, Verification
from hyperslab.conversion.running import convert
from hyperslab.conversion.saving import save
from hyperslab.conversion.selecting import Select
from hyperslab.conversion.sharding import gather, shard

__all__ = ["ConversionReport", "Loss", "Progress", "Select", "Verification", "convert", "gather", "save", "shard"]
