"""Places where bytes lie under keys. One small Protocol per operation (``base``), one file per kind of place."""
