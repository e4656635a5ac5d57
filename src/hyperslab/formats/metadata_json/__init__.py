"""Metadata as JSON values, in the spellings that several formats share. Pure: no store, no file.

- ``dtypes``: data types, NumPy's and the named ones. Zarr v2's ``dtype``, and ours in ``_hyperslab``.
- ``cells``: single cells and fill values.
- ``attributes``: attributes, with codes for the types that JSON does not tell.
- ``nodes``: metadata of a group or an array, for formats whose files hold cells and little else.
- ``extended_metadata``: the attribute ``_hyperslab``, in which all Zarr formats keep what plain Zarr cannot say.
- ``records``: the metadata of one array of a collection.

The readers and writers of documents in ``formats/*/`` call these.
"""
