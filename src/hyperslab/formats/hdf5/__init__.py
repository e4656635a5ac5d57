"""What the formats share that keep arrays in HDF5 files: netCDF-4 and the data files of DEKER.

``file``
    Structures of a file that are read here before, or beside, the HDF5 library: links, global heaps, chunk B-trees.
``cells``
    The chunks of a dataset, read by pread and our codecs instead of the library.
``filters``
    HDF5's filters as codecs, codecs as filters, and the filters of the package hdf5plugin.
``types``
    The named (committed) types of a file, as types of the model and in words.
``lock``
    The lock of the netCDF and HDF5 libraries, which are not safe for threads.

h5py is imported on use. The formats are ``formats.netcdf`` and ``formats.collections``; neither knows the other.
"""
