"""The chunk engine: how an array is cut (``grid``), which chunks a region touches (``plan``), doing it (``execute``)."""
