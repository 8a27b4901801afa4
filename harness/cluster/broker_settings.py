"""Which settings a broker knows: asked of Kafka itself, so that a misspelt one is no silent nothing."""

import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from harness.cluster.config import RESERVED_SETTINGS
from harness.common.errors import StartFailed, UsageError
from harness.common.names import nearest
from harness.environment.cache import provide

TOOL = "kafka.server.KafkaConfig"
"""Its main prints the documentation of every setting, as HTML."""
_NAMED = re.compile(r'<a id="([a-z0-9.]+)"></a>')
_TIMEOUT_S = 60.0
_FREE = ("listener.name.", "log4j2.", "confluent.")
"""Names that plug-ins and listeners make up: nobody can say which there are."""


def check_settings(settings: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Raise `UsageError` for what looks like a misspelt name, and for what the cluster needs for itself; give those
    that are just not documented.
    """
    for name in settings:
        if name in RESERVED_SETTINGS:
            raise UsageError(f"Fencepost sets {name} for each broker itself: leave out broker.{name}")
    strange = [name for name in settings if name not in known and not name.startswith(_FREE)]
    for name in strange:
        if close := nearest(name, known):
            raise UsageError(f'there is no broker setting "{name}"; did you mean "{close}"?')
    return strange


def documented_settings(cache: Path, kafka: str, command: Callable[[Path], Sequence[str]]) -> Collection[str]:
    """The names of all settings of a Kafka version: from the cache, or asked of Kafka and put there.

    `command` gives the command line of `TOOL`; its JVM may write to the folder that is handed in. Raises
    `StartFailed`.
    """

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            try:
                done = subprocess.run(
                    command(Path(scratch)), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise StartFailed(f"Kafka could not be asked for its settings: {error}") from error
        names = sorted(set(_NAMED.findall(done.stdout)))
        if "log.segment.bytes" not in names:
            raise StartFailed(f"Kafka did not tell its settings: {done.stderr.strip()[:300] or 'no words'}")
        (folder / "names.txt").write_text("\n".join(names) + "\n")

    return (provide(cache, f"settings-{kafka}", make) / "names.txt").read_text().split()
