"""``hyperslab``, and ``python -m hyperslab``: the command line."""

import sys


def run() -> None:
    """Run the command line; exit with 130 where it is interrupted, also while it is imported."""
    try:
        from hyperslab.cli import main

        main(prog_name="hyperslab")
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
