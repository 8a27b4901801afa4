"""Check that Kafka documents the names of broker settings.

Kafka ignores a setting that it does not know, so a misspelt name would have no effect.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from harness.cluster.config import RESERVED_SETTINGS
from harness.common.errors import StartFailed, UsageError
from harness.common.wording import nearest
from harness.environment.cache import provide

TOOL = "kafka.server.KafkaConfig"
"""The class whose `main` prints the documentation of all settings as HTML."""
_SETTING_NAME = re.compile(r'<a id="([a-z0-9.]+)"></a>')
_TIMEOUT_S = 60.0
_UNCHECKED_PREFIXES = ("listener.name.", "log4j2.", "confluent.")
"""Prefixes of names that plug-ins and listeners define. They cannot be checked."""


def check_settings(settings: Mapping[str, str], documented: Collection[str]) -> list[str]:
    """Return the names that are not documented and do not look misspelt.

    Raises `UsageError` for a name that looks misspelt, and for a setting that Fencepost sets itself.
    """
    for name in settings:
        if name in RESERVED_SETTINGS:
            raise UsageError(f"Fencepost sets {name} for each broker itself: leave out broker.{name}")
    undocumented = [
        name for name in settings if name not in documented and not name.startswith(_UNCHECKED_PREFIXES)
    ]
    for name in undocumented:
        if similar := nearest(name, documented):
            raise UsageError(f'there is no broker setting "{name}"; did you mean "{similar}"?')
    return undocumented


def documented_settings(cache: Path, kafka: str, command: Callable[[Path], Sequence[str]]) -> Collection[str]:
    """Return the names of all settings of a Kafka version, from the cache or from Kafka itself.

    Args:
        cache: The folder of the cache. If the names are not in the cache, they are stored.
        kafka: The version.
        command: Returns the command line that runs `TOOL`. Its argument is a folder for files of the JVM.

    Raises:
        StartFailed: Kafka did not print its settings.
    """

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            try:
                result = subprocess.run(
                    command(Path(scratch)),
                    capture_output=True,
                    text=True,
                    timeout=_TIMEOUT_S,
                    check=False,
                    encoding="utf-8",
                    errors="replace",
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise StartFailed(f"Kafka could not be started to print its settings: {error}") from error
        names = sorted(set(_SETTING_NAME.findall(result.stdout)))
        if "log.segment.bytes" not in names:
            raise StartFailed(
                f"Kafka did not print its settings: {result.stderr.strip()[:300] or 'it printed nothing'}"
            )
        (folder / "names.txt").write_text("\n".join(names) + "\n", encoding="utf-8")

    return (provide(cache, f"settings-{kafka}", make) / "names.txt").read_text(encoding="utf-8").split()
