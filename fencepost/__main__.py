"""The entry point of the command: `fencepost`, or `python -P -m fencepost`.

The other packages of Fencepost have plain names (`harness`, `reports`), and a user's packages may have the same names.
The wheel therefore installs them in `fencepost/_rooms`. In the repository they are beside `fencepost`. `main` puts the
folder that contains them first on `sys.path`, and on PYTHONPATH for every process that it starts.
"""

import gc
import os
import sys
from pathlib import Path

INTERRUPTED = 130
HERE = Path(__file__).resolve().parent
ROOMS_ROOT = str(HERE / "_rooms" if (HERE / "_rooms").is_dir() else HERE.parent)
"""The folder that contains the other packages of Fencepost."""


def main() -> None:
    """Run the command line, and end the process with its exit status."""
    sys.path.insert(0, ROOMS_ROOT)
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([ROOMS_ROOT, inherited] if inherited else [ROOMS_ROOT])

    try:
        from fencepost.cli import run_command_line

        sys.exit(run_command_line(sys.argv[1:]))
    except KeyboardInterrupt:  # before `run_command_line` handles it, or after
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # otherwise the garbage collector scans all modules once more at exit: up to 0.3 s


if __name__ == "__main__":
    main()
