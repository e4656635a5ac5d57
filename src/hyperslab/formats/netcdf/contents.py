"""What a file that is being written holds so far: specs, dimensions, types, and which array runs along which."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hyperslab.errors import Invalid
from hyperslab.formats.hdf5.types import Place
from hyperslab.formats.netcdf.dataset import NetcdfReader
from hyperslab.formats.netcdf.scope import Dimensions, Types
from hyperslab.model.paths import is_within
from hyperslab.model.spec import ArraySpec, GroupSpec

Spec = GroupSpec | ArraySpec


@dataclass
class Contents:
    """Specs by path; arrays are as long as their dimensions, which belong to the file.

    ``given``: how far an array was given cells, where that may be less than its dimensions are long.
    """

    specs: dict[str, Spec] = field(default_factory=lambda: {"": GroupSpec()})
    below: dict[str, list[str]] = field(default_factory=lambda: {"": []})
    dims: Dimensions = field(default_factory=Dimensions)
    types: Types = field(default_factory=Types)
    places: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    given: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, reader: NetcdfReader) -> Contents:
        """All that a file holds."""
        found = cls()
        found._load_group(reader, "")
        return found

    def _load_group(self, reader: NetcdfReader, path: str) -> None:
        spec = reader.node(path)
        if not isinstance(spec, GroupSpec):
            raise Invalid("an array stands where a group should", node=path)
        self.specs[path] = spec
        self.below[path] = list(reader.children(path))
        self.dims.items.update({(path, dim.name): dim for dim in spec.dims})
        self.types.items.update({(path, name): kind for name, kind in spec.types.items()})
        for name in self.below[path]:
            child = f"{path}/{name}" if path else name
            node = reader.node(child)
            if isinstance(node, GroupSpec):
                self._load_group(reader, child)
                continue
            self.specs[child] = node
            axes = zip(node.dims, node.shape, strict=True)
            found = (self.dims.find_of(path, dim or "", size) for dim, size in axes)
            self.places[child] = tuple(place for place in found if place is not None)

    def node(self, path: str) -> Spec | None:
        """What lies at ``path`` now: an array grows with its unlimited dimensions, whoever made them grow."""
        spec = self.specs.get(path)
        if isinstance(spec, GroupSpec):
            return replace(spec, dims=tuple(self.dims.of(path).values()), types=self.types.of(path))
        if spec is None or len(self.places[path]) != len(spec.shape):
            return spec
        return spec.evolve(shape=tuple(self.dims.items[place].size for place in self.places[path]))

    def array(self, path: str) -> ArraySpec:
        """The array at ``path``."""
        spec = self.node(path)
        if not isinstance(spec, ArraySpec):
            raise Invalid("there is no such array", node=path)
        return spec

    def add(self, path: str, spec: Spec) -> None:
        """A new node, the last one of its group."""
        parent, _, name = path.rpartition("/")
        self.specs[path] = spec
        self.below[parent].append(name)
        if isinstance(spec, GroupSpec):
            self.below[path] = []

    def remove(self, path: str) -> None:
        """Forget a node with all below it; the root stays, empty."""
        for other in [other for other in self.specs if is_within(other, path)]:
            del self.specs[other]
            if self.below.pop(other, None) is not None:
                self.dims.forget(other)
                self.types.forget(other)
            self.places.pop(other, None)
            self.given.pop(other, None)
        if path:
            parent, _, name = path.rpartition("/")
            self.below[parent].remove(name)
        else:
            self.specs[""], self.below[""] = GroupSpec(), []
