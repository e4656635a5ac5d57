"""MongoDB: labelled objects in two collections, as xarray_mongodb stores them."""
