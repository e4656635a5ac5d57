"""Datasets of any format over HTTP: ``serve`` and the command ``hyperslab serve``.

``zarr_view``: a dataset as the keys of a Zarr v3 store, its chunks as stored where they can be, else encoded on the
way. ``same_bytes``: which arrays are stored alike on both sides. ``places``: the names that are served, folders browsed
when somebody looks. ``application``: what is answered to a request. ``guard``: which requests are answered at all.
``pages``: the plain HTML. ``server``: the sockets and threads behind :func:`hyperslab.serve`.
"""
