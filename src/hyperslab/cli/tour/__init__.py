"""What ``hyperslab tour`` shows: its steps as data, how one is taken, what lies on disk then, and how it is told."""
