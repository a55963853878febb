"""``python -m autoscaler``."""

import sys

from autoscaler.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
