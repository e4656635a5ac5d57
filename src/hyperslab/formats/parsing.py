"""Reading a node's documents for two ends: a spec, or else every problem; or the problems alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hyperslab.errors import Problem
from hyperslab.formats.faults import Faults
from hyperslab.formats.metadata_dialect import Docs
from hyperslab.model.spec import ArraySpec, GroupSpec


class Parses(ABC):
    """The part of a :class:`~hyperslab.formats.metadata_dialect.MetadataDialect` that reading documents gives."""

    @abstractmethod
    def read(self, docs: Docs, node: str, faults: Faults) -> GroupSpec | ArraySpec:
        """The spec; what is wrong goes to ``faults``."""

    def parse(self, docs: Docs, node: str) -> GroupSpec | ArraySpec:
        """The spec; FormatError lists every problem."""
        faults = Faults(node)
        spec = self.read(docs, node, faults)
        faults.check()
        return spec

    def problems(self, docs: Docs, node: str) -> list[Problem]:
        """Every defect of the documents, also those that a reader survives."""
        faults = Faults(node)
        self.read(docs, node, faults)
        return faults.problems
