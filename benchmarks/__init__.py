"""hyperslab against its peers: every row of docs/benchmarks.md, measured in one interleaved run (``make bench``)."""
