"""``Group``: a mapping of names to groups and arrays, with attributes, dimensions and types; follows links."""

from hyperslab.group.group import Group

__all__ = ["Group"]
