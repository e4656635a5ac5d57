"""hyperslab for users of other libraries: each room imports one of them, and is imported on use."""
