"""Where the command begins: `fencepost`, or `python -P -m fencepost`.

The rooms have plain names (`harness`, `reports`), and a user's own packages may have the same names. The wheel
therefore holds the rooms in `fencepost/_rooms`; in the repository they lie beside `fencepost`. `main` puts the folder
that holds them first on the path of this process and, by PYTHONPATH, of every process that it starts.
"""

import gc
import os
import sys
from pathlib import Path

INTERRUPTED = 130
HERE = Path(__file__).resolve().parent
HOUSE = str(HERE / "_rooms" if (HERE / "_rooms").is_dir() else HERE.parent)
"""The folder that holds the rooms."""


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
