"""What formats of one array share (b2nd, blaze, bloscpack): the array is the dataset, its coordinates stand beside it.

- ``document``: name, dimensions, attributes and coordinates as one JSON document; the features of such formats.
- ``draft``: the arrays of a dataset that is being made, and which of them the others are coordinates of.
- ``reader``: the tree of the array and its coordinates, over what a format says of them; the cells of coordinates,
  which are small, as the one chunk of an array that is open for writing.
"""
