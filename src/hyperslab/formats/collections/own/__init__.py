"""The layout ``hyperslab`` of collections: each array is one of Zarr v3, on any store.

Specification: section "Our own layout" of the page on this format; documents of collections are those of DEKER 1.1 ::

    weather/                                                   a root
    └── collections/
        └── temperature/
            ├── collection.json                                the schema
            ├── arrays/6f/6f0c2d5e-…/zarr.json, c/0/0          an array of Zarr v3: one shard, or one per tile
            ├── keys/5d1f…                                     the id of the array with these primary attributes
            ├── batches/0c9a…                                  whether arrays that were made together count
            └── generations/6f                                 changes with each change below arrays/6f

``collection.json``::

    {"name": "temperature", "type": "array", "schema": {"dimensions": [{"name": "lat", "size": 181, "labels": null,
     "scale": {"start_value": 90.0, "step": -1.0, "name": null}, "type": "generic"}], "dtype": "numpy.float64",
     "attributes": [{"name": "dt", "primary": true, "dtype": "datetime"}], "fill_value": null}, "options": null,
     "storage_adapter": "HDF5StorageAdapter", "metadata_version": "0.2", "layout": "hyperslab"}

Files: ``documents`` (keys, documents of arrays, how arrays are cut), ``store`` (records, key entries, the index),
``creation`` and ``batches`` (arrays made at one stroke), ``layout`` (collections below a root, changes of arrays),
``versions`` (what changes replace), ``tiles`` and ``tile_transaction`` (writes over several shards show as one),
``rules`` (what a check finds, and what mends it).
"""
