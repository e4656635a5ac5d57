"""``hyperslab``, and ``python -m hyperslab``: the command line."""

import signal
import sys


def run() -> None:
    """Run the command line; exit with 130 where it is interrupted, also while it is imported."""
    try:
        from hyperslab.cli import main

        main(prog_name="hyperslab")
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        # The command has ended, and libraries wait for their threads (pymongo for up to 1 s): an interrupt from now on
        # ends the process at once, without the traceback of a function that none of ours has called.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    run()
