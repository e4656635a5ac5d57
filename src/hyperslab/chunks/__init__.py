"""The chunk engine: how an array is cut (``grid``), what a region touches (``plan``), doing it (``execute``)."""
