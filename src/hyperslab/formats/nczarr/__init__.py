"""NCZarr: the netCDF-4 data model on Zarr v2, in the dialect that netcdf-c writes today and in the draft of 2018."""
