"""Entry: ``python train.py ...`` or ``torchrun --nproc_per_node=N train.py ...``."""

import sys

from harness.cli.train import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
