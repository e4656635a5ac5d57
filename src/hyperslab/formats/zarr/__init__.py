"""What the formats share that keep JSON documents and chunks under the keys of a store: Zarr v2 and v3, NCZarr, HDMF.

``dialect``
    How one format spells its documents (:class:`~hyperslab.formats.zarr.dialect.MetadataDialect`), and consolidated
    metadata as it is read. All else here works for any dialect.
``reader``, ``writer``, ``opening``
    A dataset open for reading, for writing, and how one is opened or made.
``commit``
    One change of documents, by which consolidated metadata is never stale.
``rules``
    Rules about documents: what they find is mended after a new look.
``chunks``, ``shards``
    Where chunks lie, how they are read and written, one per object or many in one.

The formats are the folders ``zarr2``, ``zarr3``, ``nczarr`` and ``hdmf``; collections and Blaze use the chunks.
"""
