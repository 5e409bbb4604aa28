"""`python -m sterna_runtime`, which is the command `sterna-runtime`."""

import sys

from sterna_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
