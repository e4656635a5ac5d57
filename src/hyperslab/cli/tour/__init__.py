"""``hyperslab tour``: ``steps`` is its data, ``runner`` takes a step and measures the result; the command prints it."""
