"""Codecs: one file each, the registry that names them, and the chain that compiles them for one kind of chunk."""
