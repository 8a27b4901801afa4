"""Where the command begins: `fencepost`, or `python -P -m fencepost`.

The rooms of the house have plain names. So its own folder stands first on the path before any of
them is loaded, here and in every process that is started from here, and nobody's `workloads` or
`reports` is taken for ours.
"""

import gc
import os
import sys
from pathlib import Path

INTERRUPTED = 130
HOUSE = str(Path(__file__).resolve().parent.parent)


def main() -> None:
    """Run the command line, and end the process with its exit status."""
    sys.path.insert(0, HOUSE)
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([HOUSE, inherited] if inherited else [HOUSE])

    try:
        from fencepost.cli import run_command_line

        sys.exit(run_command_line(sys.argv[1:]))
    except KeyboardInterrupt:  # before the command line was there to hear it, or after
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # or Python looks once more through all that is loaded, before it ends: up to 0.3 s


if __name__ == "__main__":
    main()
