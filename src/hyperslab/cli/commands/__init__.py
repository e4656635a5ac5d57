"""One module per command, each with a ``command``; the table of them is ``hyperslab.cli.COMMANDS``."""
