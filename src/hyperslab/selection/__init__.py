"""What a key selects: NumPy's dialect and labels become a region (ranges and points per axis). No I/O."""
