"""Codecs: what stands between cells and stored bytes, one file per family.

``base``, ``config``, ``buffers``   the three kinds of codec; parameters, sizes and cells as bytes: what all codecs use
``chain``       ``Chain``, which encodes and decodes chunks; sources of chunks call it
``registry``    the table of all codecs; a chain of what a document lists or a user says; formats, conversion and the
                command line call it
``sharding``    shards and their index; formats read and write parts of a shard by it

The families, by what their codecs work on or need:

``bytes``       the same bytes in other places: ``bytes``, ``transpose``, ``shuffle``
``numbers``     numbers become other numbers, or bits: ``delta``, ``bitround``, ``cast_value``, ``packbits``
``text``        text and bytes become one another: ``base64``, ``fixed_utf8``, ``record_text``
``vlen``        cells of any length become bytes: ``vlen-utf8``, ``json2``
``checksums``   sums that are stored with a chunk; ``crc32c`` is the one that ``sharding`` calls too
``blosc``, ``zstd``             compressors of C libraries; ``libblosc2`` decodes both
``streams``, ``pcodec_zfpy``    those of Python's and ISA-L's (gzip, zlib, bz2, lzma) and lz4; those of numbers
``plain_cells`` cells that stand for others: categories, enumerations, times
``references``, ``reference_pickle``, ``pickled``   references and regions, as text and as pickles
"""
