"""The data model: paths, data types, dimensions, attributes, links and the specs of groups and arrays. Pure: no I/O."""
