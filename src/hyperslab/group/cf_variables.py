"""The variables that belong to a variable by the CF conventions (CF 1.11), UGRID 1.0 and SGRID: what its attributes
name, the coordinates of its dimensions, and the instances that its cells are of.

``companions_of`` finds what has to be copied with an array so that it keeps its meaning; ``AxisSearch`` the dimension
that ``X``, ``time`` or ``air_pressure`` means; ``find_places`` the longitude and latitude of its cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.axis_roles import role_of
from hyperslab.array.series import COMPANIONS, SECONDS, find_clock, is_series_data
from hyperslab.array.session import OpenDataset
from hyperslab.errors import DAMAGE, BrokenLink, ExternalLinkRefused, HyperslabError, Invalid, NodeNotFound
from hyperslab.formats.frame_description import variables_with
from hyperslab.group.coordinates import find_coordinate
from hyperslab.group.links import follow
from hyperslab.model.attrs import Attrs
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names
from hyperslab.model.paths import child, is_name, outward, split

# Names of one attribute that are looked up: a stranger may write any number.
_MOST_NAMES = 50
# Attributes whose words name other variables (CF 1.11, appendix A; UGRID 1.0). Of "area: cells" the word with a colon
# is a key; those of _KEYED are names of variables too ("crs: x y").
_LISTS = frozenset({"coordinates", "ancillary_variables", "node_coordinates"})
_SINGLE = frozenset(
    {
        *("bounds", "climatology", "grid_mapping", "cell_measures", "formula_terms", "geometry", "node_count"),
        *("part_node_count", "interior_ring", "mesh", "location_index_set", "grid", "quantization"),
        *("coordinate_interpolation", "interpolation_parameters", "tie_point_mapping"),
    }
)
_KEYED = frozenset({"grid_mapping", "coordinate_interpolation"})
# Attributes of a topology (UGRID, SGRID) whose names end so name variables as well.
_ENDINGS = ("_connectivity", "_coordinates")
_TOPOLOGIES = ("mesh_topology", "grid_topology")
# Companions that are named one by one; of more only the number is printed.
_MOST_COMPANIONS = 20


def names_in_attribute(name: str, value: object, attrs: Mapping[str, Any]) -> list[str]:
    """Return the names of variables in an attribute; none where it names no variables. ``attrs``: all of the variable,
    of which ``cf_role`` says that it is a topology."""
    is_topology = attrs.get("cf_role") in _TOPOLOGIES and name.endswith(_ENDINGS)
    if not isinstance(value, str) or not (name in _LISTS | _SINGLE or is_topology):
        return []
    words = value.split()[:_MOST_NAMES]
    return [word.removesuffix(":") for word in words if name in _KEYED or not word.endswith(":")]


def find_named(documents: Iterable[Mapping[str, Any]], *, without: Collection[str] = ()) -> set[str]:
    """Return the names, without their groups, of the variables that attributes of some arrays name by CF; ``without``:
    attributes that do not count."""
    return {
        word.rpartition("/")[2]
        for attrs in documents
        for name, value in attrs.items()
        if name not in without
        for word in names_in_attribute(name, value, attrs)
    }


def keep_references(attrs: Mapping[str, Any], written: Collection[str]) -> dict[str, object]:
    """Return the attributes without the names of variables that are not ``written``: lists get shorter, an attribute
    that needs all its names is left out."""
    kept = {}
    for name, value in attrs.items():
        words = names_in_attribute(name, value, attrs)
        there = [word for word in words if word.rpartition("/")[2] in written]
        if there == words:
            kept[name] = value
        elif there and name in _LISTS:
            kept[name] = " ".join(there)
    return kept


def name_coordinates(attrs: Mapping[str, Any], names: Iterable[str]) -> dict[str, object]:
    """Return the attributes with more names in ``coordinates``, such as of scalars (CF 1.11, 5.7)."""
    before = attrs.get("coordinates", "")
    if not isinstance(before, str):
        return dict(attrs)
    words = list(dict.fromkeys([*before.split(), *names]))
    return {**attrs, "coordinates": " ".join(words)} if words else dict(attrs)


# -- companions --------------------------------------------------------------------------------------------------------


def name_companions(names: Sequence[str]) -> str:
    """Return the line that names the arrays that came along with others."""
    more = [f"{len(names) - _MOST_COMPANIONS} more"] if len(names) > _MOST_COMPANIONS else []
    return f"with them: {', '.join([*names[:_MOST_COMPANIONS], *more])}"


def companions_of(arrays: Iterable[Array], errors: dict[str, HyperslabError] | None = None) -> list[Array]:
    """Return the arrays of the same dataset without which ``arrays`` lose their meaning, and those of these in turn.

    Coordinates of dimensions, categories of data frames, and what attributes name: coordinates, bounds, climatologies,
    grid mappings, cell measures, ancillary variables, terms of vertical coordinates, geometries, meshes; in a dataset
    with ``featureType`` also what counts or numbers the samples, and the variables of the instances (CF 1.11, 9); what
    tells the seconds and the unit of a series of NWB.
    ``errors``: gets those of arrays that are damaged, by path; without it they are raised.
    """
    first = list(arrays)
    known = {array.path for array in first}
    searches: dict[int, _VariableSearch] = {}
    found = []
    waiting = first[::-1]
    while waiting:
        array = waiting.pop()
        search = searches.setdefault(id(array._session), _VariableSearch(array._session, errors))
        new = []
        for other in search.neighbours(array):
            if other.path not in known:
                known.add(other.path)
                new.append(other)
        found += new
        waiting += new[::-1]
    return found


def global_attributes(session: OpenDataset, folder: str) -> Attrs:
    """Return the attributes of a group, with those of the groups above it that it has not itself where one of these has
    ``Conventions``: they hold for all below (CF 1.11, 2.7)."""
    groups = [node for group in outward(folder) if (node := session.reader.node(group)).is_group]
    attrs = dict(groups[0].attrs) if groups else {}
    if any("Conventions" in node.attrs for node in groups):
        for node in groups[1:]:
            attrs = {**node.attrs, **attrs}
    return attrs


def find_auxiliary_coordinates(array: Array) -> Iterator[Array]:
    """Yield the arrays that the attribute ``coordinates`` names, the nearest of each name, but for labels of a
    dimension; damaged ones are left out."""
    yield from _iter_named(array, _VariableSearch(array._session, {}))


def _iter_named(array: Array, search: _VariableSearch) -> Iterator[Array]:
    for name in names_in_attribute("coordinates", array.spec.attrs.get("coordinates"), array.spec.attrs):
        coordinate = search.find(split(array.path)[0], name)
        if coordinate is not None and not (name in array.dims and coordinate.ndim <= 1):
            yield coordinate


@dataclass
class _VariableSearch:
    """A search for variables of one dataset, which looks for each once; ``errors`` as for :func:`companions_of`."""

    session: OpenDataset
    errors: dict[str, HyperslabError] | None
    nodes: dict[str, Array | None] = field(default_factory=dict)
    arrays: dict[str, list[Array]] = field(default_factory=dict)
    features: dict[str, list[Array]] = field(default_factory=dict)
    places: dict[str, list[Array]] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)

    def neighbours(self, array: Array) -> Iterator[Array]:
        """Yield what an array itself needs: coordinates of its dimensions, what it names, what its samples are of."""
        folder, attrs = split(array.path)[0], array.spec.attrs
        compressed = str(attrs.get("compress", "")).split()[:_MOST_NAMES]
        for dim in (*(dim for dim in array.dims if dim is not None), *compressed):
            coordinate = self.find(folder, dim)
            if coordinate is not None and coordinate.ndim <= 1:
                yield coordinate
        for name, value in attrs.items():
            for word in names_in_attribute(name, value, attrs):
                found = self.find(folder, word)
                if found is not None:
                    yield found
        group = self.session.reader.node(folder)
        beside = variables_with(group.attrs, split(array.path)[1]) if group.is_group else ()
        parts = COMPANIONS if is_series_data(self.session, array.path) else ()
        yield from (one for name in (*beside, *parts) if (one := self._at(child(folder, str(name)))) is not None)
        yield from self._instances(array)

    def find(self, folder: str, name: str) -> Array | None:
        """Return the array of a name as seen from a group (CF 1.11, 2.7): the nearest one upwards, or that at a path;
        None without any, and where a link leads out of the dataset or to nothing."""
        if "/" in name:
            place = normpath(name if name.startswith("/") else f"/{folder}/{name}").strip("/")
            return self._at(place)
        if not is_name(name):
            return None
        return next((found for group in outward(folder) if (found := self._at(child(group, name))) is not None), None)

    def _at(self, path: str) -> Array | None:
        if path not in self.nodes:
            self.nodes[path] = None
            try:
                session, place, spec = follow(self.session, path)
                if spec.is_array and session is self.session:
                    self.nodes[path] = Array(session, place, spec)
            except (NodeNotFound, Invalid, BrokenLink, ExternalLinkRefused):
                pass
            except DAMAGE as error:
                if self.errors is None:
                    raise
                self.errors[path] = error.locate(url=self.session.url, node=path)
        return self.nodes[path]

    def _instances(self, array: Array) -> Iterator[Array]:
        """Yield the variables of discrete samples that an array needs: the one that counts or numbers its samples, and
        those along the dimension of the instances (CF 1.11, 9.3), once each of a search."""
        folder = split(array.path)[0]
        for marker in self._markers_beside(folder):
            counted, numbered = marker.spec.attrs.get("sample_dimension"), marker.spec.attrs.get("instance_dimension")
            first = marker.dims[0] if marker.dims else None
            if isinstance(counted, str) and counted in array.dims:
                yield marker
                yield from self._take_along(folder, first)
            elif first is None or first not in array.dims:
                continue
            elif isinstance(numbered, str):
                yield marker
                yield from self._take_along(folder, numbered)
            elif "cf_role" in marker.spec.attrs:
                yield from self._take_along(folder, first)

    def _markers_beside(self, folder: str) -> list[Array]:
        """Return the arrays of a group of discrete samples that count or number samples or name instances; none of
        other groups."""
        if folder not in self.features:
            self.features[folder] = []
            if {"featureType", "CF:featureType"} & set(global_attributes(self.session, folder)):
                marks = {"sample_dimension", "instance_dimension", "cf_role"}
                self.features[folder] = [one for one in self.beside(folder) if marks & set(one.spec.attrs)]
        return self.features[folder]

    def _take_along(self, folder: str, dim: str | None) -> list[Array]:
        """Return the variables of a group along its dimension of instances; none the second time."""
        if dim is None or (folder, dim) in self.taken:
            return []
        self.taken.add((folder, dim))
        along = [other for other in self.beside(folder) if other.dims and other.dims[0] == dim]
        return [other for other in along if other.ndim == 1 or other.dtype.kind == "S"]

    def beside(self, folder: str) -> list[Array]:
        """Return the arrays of a group; damaged ones are left out where errors are collected."""
        if folder not in self.arrays:
            places = (self._at(child(folder, name)) for name in self.session.reader.children(folder))
            self.arrays[folder] = [array for array in places if array is not None]
        return self.arrays[folder]

    def places_beside(self, folder: str) -> list[Array]:
        """Return the arrays of a group along several dimensions that may say where cells lie."""
        if folder not in self.places:
            grids = [other for other in self.beside(folder) if other.ndim > 1]
            kinds = {*_EARTH, *_PLANE}
            self.places[folder] = [one for one in grids if role_of(split(one.path)[1], one.spec.attrs) in kinds]
        return self.places[folder]


# -- where cells lie on the earth --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellPlaces:
    """Longitude and latitude of all cells along ``dims`` of an array, one or two of them, in its order.

    They are ``x`` and ``y`` of a plane where only these are known and a caller takes them. ``feature``: the kind of
    discrete samples, such as ``trajectory`` (CF 1.11, 9), which are no grid; "" of others.
    """

    dims: tuple[str, ...]
    longitude: Array
    latitude: Array
    feature: str = ""

    def as_json(self) -> dict[str, object] | None:
        """Return what a node tells of it; None of samples along two dimensions, which no page draws."""
        if self.feature and len(self.dims) == 2:
            return None
        kind = "grid" if len(self.dims) == 2 else "points"
        paths = {"longitude": f"/{self.longitude.path}", "latitude": f"/{self.latitude.path}"}
        return {"kind": kind, "dims": list(self.dims), "is_way": self.feature == "trajectory", **paths}


@dataclass(frozen=True)
class RotatedGrid:
    """A grid around another ``pole`` than the earth's, of which only its own longitudes and latitudes are known: labels
    of the dimensions ``dims`` of an array, in its order."""

    dims: tuple[str, ...]
    longitude: Array
    latitude: Array
    pole: RotatedPole

    def as_json(self) -> dict[str, object]:
        """Return what a node tells of it."""
        paths = {"longitude": f"/{self.longitude.path}", "latitude": f"/{self.latitude.path}"}
        return {"kind": "grid", "dims": list(self.dims), "is_way": False, **paths}

    def to_earth(self, longitude: Values, latitude: Values) -> tuple[Values, Values]:
        """Return longitude and latitude of all cells, in the order of ``dims``, of the labels of the grid."""
        if self.dims[0] == self.longitude.dims[0]:
            return self.pole.to_earth(longitude[:, np.newaxis], latitude[np.newaxis])
        return self.pole.to_earth(longitude[np.newaxis], latitude[:, np.newaxis])


_EARTH, _PLANE = ("longitude", "latitude"), ("x", "y")


def find_places(array: Array, *, beside: bool = False, plane: bool = False) -> CellPlaces | None:
    """Return the coordinates, of other dimensions than their own name, that say where the cells of an array lie.

    They are those that it names itself, or its mesh. ``beside``: without any, among all arrays of its group; ``plane``:
    without longitude and latitude, ``x`` and ``y`` of a plane. None without any; what cannot be read is none.
    """
    return _find_places(array, _VariableSearch(array._session, {}), beside=beside, plane=plane)


def _find_places(array: Array, search: _VariableSearch, *, beside: bool, plane: bool = False) -> CellPlaces | None:
    sources = (_iter_named, _iter_mesh_coordinates, *([_iter_beside] if beside else []))
    for kind in (_EARTH, _PLANE) if plane else (_EARTH,):
        for candidates in sources:
            found = _pair_of(array, candidates(array, search), kind)
            if found is not None:
                return found
    return None


def find_rotated_grid(array: Array) -> RotatedGrid | None:
    """Return the grid around another pole that the dimensions of an array are of, by its grid mapping; None without."""
    return _find_rotated_grid(array, _VariableSearch(array._session, {}))


def _find_rotated_grid(array: Array, search: _VariableSearch) -> RotatedGrid | None:
    folder, attrs = split(array.path)[0], array.spec.attrs
    pole: RotatedPole | None = None
    for name in names_in_attribute("grid_mapping", attrs.get("grid_mapping"), attrs):
        mapping = search.find(folder, name)
        if mapping is not None and pole is None:
            pole = RotatedPole.of(mapping.spec.attrs)
    if pole is None:
        return None
    found: dict[str, Array] = {}
    for dim in array.dims:
        coordinate = None if dim is None else search.find(folder, dim)
        if coordinate is not None and coordinate.dims == (dim,) and coordinate.dtype.kind in "iuf":
            found.setdefault(str(coordinate.spec.attrs.get("standard_name")), coordinate)
    if not {"grid_longitude", "grid_latitude"} <= set(found):
        return None
    longitude, latitude = found["grid_longitude"], found["grid_latitude"]
    along = sorted((str(longitude.dims[0]), str(latitude.dims[0])), key=axis_names(array.dims).index)
    return RotatedGrid(tuple(along), longitude, latitude, pole)


def _iter_mesh_coordinates(array: Array, search: _VariableSearch) -> Iterator[Array]:
    """Yield the coordinates of the faces, edges or nodes of a mesh that the cells of an array lie at (UGRID 1.0)."""
    folder, attrs = split(array.path)[0], array.spec.attrs
    for mesh in names_in_attribute("mesh", attrs.get("mesh"), attrs):
        topology = search.find(folder, mesh)
        key = f"{attrs.get('location')}_coordinates"
        if topology is not None:
            near = split(topology.path)[0]
            for name in names_in_attribute(key, topology.spec.attrs.get(key), topology.spec.attrs):
                coordinate = search.find(near, name)
                if coordinate is not None:
                    yield coordinate


def _feature_of(array: Array) -> str:
    """Return the kind of discrete samples that a dataset has; "" of others."""
    with suppress(HyperslabError):
        attrs = global_attributes(array._session, split(array.path)[0])
        return str(attrs.get("featureType", attrs.get("CF:featureType", "")))
    return ""


def _iter_beside(array: Array, search: _VariableSearch) -> Iterator[Array]:
    """Yield the arrays of the group of an array that run along several dimensions; damaged ones are left out."""
    with suppress(HyperslabError):
        yield from search.places_beside(split(array.path)[0])


def _pair_of(array: Array, coordinates: Iterable[Array], kind: tuple[str, str]) -> CellPlaces | None:
    """Return the first coordinates that mean ``kind``, along the same dimensions of the array; None unless both are
    there."""
    names = axis_names(array.dims)
    found: dict[str, Array] = {}
    for coordinate in coordinates:
        role = role_of(split(coordinate.path)[1], coordinate.spec.attrs)
        dims = coordinate.dims
        is_like = 1 <= coordinate.ndim <= 2 and None not in dims and set(dims) <= set(names)
        if role in kind and is_like and coordinate.dtype.kind in "iuf":
            sizes = [array.shape[names.index(str(dim))] for dim in dims]
            if sizes == list(coordinate.shape):
                found.setdefault(role, coordinate)
    if len(found) < 2 or set(found[kind[0]].dims) != set(found[kind[1]].dims):
        return None
    along = sorted(map(str, found[kind[0]].dims), key=names.index)
    return CellPlaces(tuple(along), found[kind[0]], found[kind[1]], _feature_of(array))


# -- the dimension that a word of CF means -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NamedAxis:
    """A dimension of an array, and the ``coordinate`` along it that a word of CF means; of a series of NWB what tells
    its seconds, which may run along no dimension, or along another one, and a place as its name where it has none."""

    dim: str
    coordinate: Array


_LETTERS = {"longitude": "X", "x": "X", "latitude": "Y", "y": "Y", "up": "Z", "down": "Z", "time": "T"}
# Words that mean the samples of a series of NWB.
_SAMPLES = (SECONDS, "T", "timestamps")


_WordedAxis = tuple[NamedAxis, dict[str, int]]


class AxisSearch:
    """A search for the dimensions of arrays that words mean, and for the places of their cells: what arrays share, such
    as the coordinates of their group, is looked for once."""

    def __init__(self) -> None:
        self._searches: dict[int, _VariableSearch] = {}
        self._axes: dict[tuple[object, ...], tuple[list[_WordedAxis], list[_WordedAxis]]] = {}
        self._places: dict[tuple[object, ...], CellPlaces | None] = {}

    def find_axis(self, array: Array, word: str) -> NamedAxis | None:
        """Return the dimension of an array that a word means: X, Y, Z or T, a standard name, longitude, latitude or
        time, or the name of a coordinate of one dimension that the attribute ``coordinates`` names. Samples of a series
        of NWB are ``time``, ``T`` and ``timestamps``, too.

        An attribute ``axis`` and a standard name say more than units; coordinates called as their dimension come first.
        None without any; Invalid where several are meant alike.
        """
        for candidates in self._axes_of(array):
            by_strength: dict[int, list[NamedAxis]] = {}
            for axis, words in candidates:
                if strength := words.get(word):
                    by_strength.setdefault(strength, []).append(axis)
            if by_strength:
                best = by_strength[max(by_strength)]
                if len({axis.dim for axis in best}) > 1:
                    dims = " and ".join(axis.dim for axis in best)
                    raise Invalid(f"{word} may mean {dims}", node=array.path, remedy="name the dimension itself")
                return best[0]
        return _find_seconds(array) if word in _SAMPLES else None

    def words_of_axes(self, array: Array) -> dict[str, list[str]]:
        """Return for each dimension of an array the words of CF that mean it, for an error that lists them."""
        found: dict[str, list[str]] = {}
        for axis, meant in (pair for candidates in self._axes_of(array) for pair in candidates):
            words = found.setdefault(axis.dim, [])
            words += [word for word in meant if word not in (axis.dim, *words)]
        seconds = _find_seconds(array)
        if seconds is not None:
            words = found.setdefault(seconds.dim, [])
            words += [word for word in _SAMPLES if word not in (seconds.dim, *words)]
        return found

    def find_places(self, array: Array) -> CellPlaces | None:
        """Return what says where the cells of an array lie: what it names, else what stands in its group."""
        key = (*self._key(array), *(str(array.spec.attrs.get(name)) for name in ("mesh", "location")))
        if key not in self._places:
            self._places[key] = _find_places(array, self._search(array), beside=True)
        return self._places[key]

    def find_rotated_grid(self, array: Array) -> RotatedGrid | None:
        """Return the grid around another pole that the dimensions of an array are of; None without."""
        return _find_rotated_grid(array, self._search(array))

    def find_auxiliary_coordinates(self, array: Array) -> Iterator[Array]:
        """Yield the arrays that the attribute ``coordinates`` of an array names, but for labels of a dimension."""
        return _iter_named(array, self._search(array))

    def find_curved(self, array: Array, word: str) -> Array | None:
        """Return the longitude or latitude along two dimensions of an array that a word means: its name, or one of its
        kind, such as ``lon``; None for other words, and those that mean an axis."""
        if word in array.dims or self.find_axis(array, word) is not None:
            return None
        for coordinate in self.find_auxiliary_coordinates(array):
            name, is_curved = split(coordinate.path)[1], coordinate.ndim == 2 and coordinate.dtype.kind in "iuf"
            role = role_of(name, coordinate.spec.attrs) if is_curved else None
            if role in ("longitude", "latitude") and (word == name or role_of(word, {}) == role):
                return coordinate
        return None

    def _search(self, array: Array) -> _VariableSearch:
        number = id(array._session)
        if number not in self._searches:
            self._searches[number] = _VariableSearch(array._session, {})
        return self._searches[number]

    def _key(self, array: Array) -> tuple[object, ...]:
        """Return all that decides which coordinates an array has."""
        self._search(array)  # it keeps the dataset, and so the number of it
        spec = array.spec
        indexes, named = frozenset(spec.indexes), str(spec.attrs.get("coordinates"))
        own = array.path if "cf_role" in spec.attrs else ""
        return id(array._session), split(array.path)[0], spec.dims, spec.shape, indexes, named, own

    def _axes_of(self, array: Array) -> tuple[list[_WordedAxis], list[_WordedAxis]]:
        """Return the axes of an array with their words: by coordinates of their name, and by others."""
        key = self._key(array)
        if key not in self._axes:
            own, others = _iter_coordinates(array), _iter_auxiliary(array, self._search(array))
            self._axes[key] = ([(axis, _words_of(axis)) for axis in own], [(axis, _words_of(axis)) for axis in others])
        return self._axes[key]


def _find_seconds(array: Array) -> NamedAxis | None:
    """Return the first dimension of a series of NWB whose samples have seconds; None without. Errors of its links."""
    clock = find_clock(array._session, array.path, array.spec)
    return None if clock is None else NamedAxis(axis_names(array.dims)[0], Array(*clock))


def _iter_coordinates(array: Array) -> Iterator[NamedAxis]:
    for dim, size in dict(zip(array.dims, array.shape, strict=True)).items():
        if dim is not None:
            with suppress(HyperslabError):
                if (coordinate := find_coordinate(array, dim)) is not None and coordinate.shape == (size,):
                    yield NamedAxis(dim, coordinate)


def _iter_auxiliary(array: Array, search: _VariableSearch) -> Iterator[NamedAxis]:
    sizes = dict(zip(array.dims, array.shape, strict=True))
    if "cf_role" in array.spec.attrs and _is_along_one(array) and array.dims[0] is not None:
        yield NamedAxis(array.dims[0], array)  # names of instances, which their samples may lie along no dimension of
    for coordinate in _iter_named(array, search):
        dim = coordinate.dims[0] if _is_along_one(coordinate) else None
        if dim is not None and coordinate.shape[0] == sizes.get(dim):
            yield NamedAxis(dim, coordinate)


def _is_along_one(coordinate: Array) -> bool:
    """Return True for cells along one dimension, texts of chars along a second one among them."""
    return coordinate.ndim == 1 or (coordinate.ndim == 2 and coordinate.dtype == "S1")


def _words_of(axis: NamedAxis) -> dict[str, int]:
    """Return the words that mean an axis, and how much each says (3: an attribute says it, 1: units or a name)."""
    attrs, name = axis.coordinate.spec.attrs, split(axis.coordinate.path)[1]
    words = {name: 3} if name != axis.dim else {}
    standard, letter = attrs.get("standard_name"), str(attrs.get("axis", "")).upper()
    role = role_of(name, attrs)
    if role in ("longitude", "latitude", "time"):
        words[role] = 1
    if role is not None:
        words[_LETTERS[role]] = 2 if role_of("", {"standard_name": standard}) is not None else 1
    elif "formula_terms" in attrs:
        words["Z"] = 2
    if isinstance(standard, str) and standard:
        words[standard.split()[0]] = 3
    if letter in _LETTERS.values():
        words = {word: much for word, much in words.items() if word not in _LETTERS.values()} | {letter: 3}
    return words


# -- grids around another pole (CF 1.11, appendix F, Rotated pole) -----------------------------------------------------


@dataclass(frozen=True)
class RotatedPole:
    """The north pole of a grid in degrees of the earth, and the ``turn``: the grid's longitude of the true pole."""

    latitude: float
    longitude: float
    turn: float = 0.0

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> RotatedPole | None:
        """Return the pole that a grid mapping says; None where it says none, or no numbers."""
        if attrs.get("grid_mapping_name") != "rotated_latitude_longitude":
            return None
        names = ("grid_north_pole_latitude", "grid_north_pole_longitude", "north_pole_grid_longitude")
        try:
            found = [
                float(np.asarray(attrs.get(name, default)))
                for name, default in zip(names, (None, None, 0.0), strict=True)
            ]
        except (TypeError, ValueError):
            return None
        return cls(*found) if np.isfinite(found).all() else None

    def to_earth(self, longitude: Values, latitude: Values) -> tuple[Values, Values]:
        """Return longitude and latitude, in degrees from -180 to 180, of places of the grid, whose arrays broadcast."""
        tilt = np.radians(self.latitude)
        east, north = np.radians(np.asarray(longitude, "f8") - self.turn), np.radians(np.asarray(latitude, "f8"))
        # the point of the unit sphere, with x where the meridian of the true pole crosses the grid's equator
        x, y, z = np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)
        around = np.degrees(np.arctan2(y, np.sin(tilt) * x - np.cos(tilt) * z)) + 180.0 + self.longitude
        up = np.degrees(np.arcsin(np.clip(np.cos(tilt) * x + np.sin(tilt) * z, -1.0, 1.0)))
        return (around + 180.0) % 360.0 - 180.0, up
