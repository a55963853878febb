"""`python -m autoscaler.simulate`."""

import argparse
import sys

from autoscaler.simulate.command import add_arguments, run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="autoscaler simulate", description="The same decisions on a made-up cluster, beside other autoscalers."
    )
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
