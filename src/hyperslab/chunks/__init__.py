"""The chunk engine: how an array is cut, which chunks a region touches, and how they are read and written.

- ``source``: ``ChunkSource``, one array's chunks, decoded; each format subclasses it; for all that touches cells.
- ``grid``: how an array is cut into chunks, and chunks into shards; for ``plan`` and every source.
- ``plan``: a region over a grid gives pieces, and batches of them; for ``array.cells`` and ``conversion.copy``.
- ``execute``: does what a plan says, by threads, with a cache, under locks or by compare-and-swap; for the same.
- ``sparse_io``: the same for lists of cells; for ``array.sparse_io`` and ``conversion.copy``.
- ``edges``: blanks cells beyond the edge of an array that was longer; for ``array.growth`` and NCZarr.
- ``boxes``: in which order an array is copied; for conversion, comparison and the removal of ranges.
- ``auto``: sizes of chunks and shards where nobody chose any; for whoever makes an array.
- ``pool``: threads that take batches from one iterator; for ``execute`` and formats of many files.
- ``cache``: decoded chunks in memory, served while their stamp is the same; for ``execute`` and ``array.cells``.
- ``memory``: refuses what does not fit, before it is allocated; for whoever allocates cells.
- ``settings``: threads, cache, durability and timeouts as one frozen value; for all that opens a dataset.
- ``progress``: how far a long operation is, for callers and a bar on a terminal; for conversion, integrity and saving.
"""
