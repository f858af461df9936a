"""`python -m warplock`: the command line."""

import sys

from warplock._native import main as _main


def main() -> int:
    """Runs the command line with the arguments of this process."""
    return _main([sys.executable, "-m", "warplock"], ["warplock", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
