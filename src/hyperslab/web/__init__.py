"""Datasets of any format over HTTP: ``serve`` and the command ``hyperslab serve``.

``zarr_view``: a dataset as the keys of a Zarr v3 store, its chunks as stored where they can be, else encoded on the
way. ``same_bytes``: which arrays are stored alike on both sides. ``places``: the names that are served, folders browsed
when somebody looks. ``application``: what is answered to a request. ``guard``: which requests are answered at all.
``answers``: JSON and plain HTML. ``server``: the sockets and threads behind :func:`hyperslab.serve`.

``explorer``: what is shown in a browser. ``dataset_cache``: the datasets that are open for it. ``nodes``: lists of
nodes, and one in full. ``rows``: tables. ``views``: which cells of a range are read, of the dimensions in ``axes``;
``reduction``: the pixels that become of them; ``histogram``, ``cell_places``: what else a plot needs. ``exports``:
files of a part, or of rows. ``waiting``: that somebody still waits for what takes long.
``bounded_values``: what is told of a stranger's values. ``page_files``: the page, whose scripts are in ``page/``.
``notebook``: the page in a notebook."""
