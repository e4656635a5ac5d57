"""check, repair, diff: find and mend damage, and say what differs; every problem is listed, none stops the search."""

from hyperslab.checks.checking import check
from hyperslab.checks.diffing import CellsDiffer, Differences, diff
from hyperslab.checks.repairing import repair
from hyperslab.checks.report import Mend, Report

__all__ = ["CellsDiffer", "Differences", "Mend", "Report", "check", "diff", "repair"]
