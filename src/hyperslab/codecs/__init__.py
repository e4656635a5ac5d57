"""Codecs: what stands between cells and stored bytes, one file per family.

``base``, ``config``, ``buffers``   the three kinds of codec; parameters, sizes and cells as bytes: what all codecs use
``chain``       ``Chain``, which encodes and decodes chunks; sources of chunks call it
``registry``    the table of all codecs; a chain of what a document lists or a user says; formats, conversion and the
                command line call it
``sharding``    shards and their index; formats read and write parts of a shard by it
``bytes``, ``numbers``, ``text``, ``vlen``, ``checksums``   codecs of Zarr and numcodecs, by what they work on
``crc32c``      the checksum of that name; ``checksums`` and ``sharding`` call it
``blosc``, ``zstd``, ``lz4``, ``streams``, ``pcodec_zfpy``  compressors; ``libblosc2`` decodes the first three
``references``, ``reference_pickle``, ``pickled``, ``plain_cells``  references, times, enumerations: for HDMF and NCZarr
"""
