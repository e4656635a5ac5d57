"""bloscpack: one array in one file of Blosc chunks, with checksums, offsets and metadata as JSON."""
