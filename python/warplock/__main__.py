"""`python -m warplock`: the command line."""

import signal
import sys

from warplock._native import main as _main


def main() -> int:
    """Runs the command line with the arguments of this process."""
    # Python's own handler would raise KeyboardInterrupt after a mount that Ctrl-C has ended as it should.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _main([sys.executable, "-m", "warplock"], ["warplock", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
