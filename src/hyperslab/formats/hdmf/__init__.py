"""HDMF and NWB on Zarr: links, object and region references, the cache of specifications; on Zarr v2 and v3."""
