"""The secrets that a run and this machine know, so that a text that may contain them, such as a log, can be shown."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.common.documents import read_toml
from harness.common.wording import REDACTED, is_secret

SHORTEST_SECRET = 6
"""A shorter value is not searched for in other texts, because it would be found everywhere."""


def known_secrets(folder: Path, options: Mapping[str, Any], environment: Mapping[str, str]) -> frozenset[str]:
    """Return the secret values that a run may have printed.

    Args:
        folder: the folder of the run, with the configuration of its brokers
        options: `[options]` of its `run.toml`, which names the files of client settings and of the pipeline
        environment: the environment variables of this machine, or none
    """
    properties = [read_properties(file) for file in sorted(folder.glob("brokers/*/server.properties"))]
    client = read_properties(Path(str(options["client-config"]))) if "client-config" in options else {}
    pipeline = Path(str(options["pipeline"])) if "pipeline" in options else None
    values = [value for table in (*properties, client, environment) for value in _secrets_in(table)]
    values += _values_of_environment(pipeline)
    return frozenset(value for value in values if len(value) >= SHORTEST_SECRET and value != REDACTED)


def without_secrets(text: str, secrets: frozenset[str]) -> str:
    """Return the text with the placeholder for each of these values."""
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return text


def read_properties(file: Path) -> dict[str, str]:
    """Return a Java properties file by name. A file that cannot be read has no properties."""
    try:
        lines = file.expanduser().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (
        line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith(("#", "!"))
    )
    return {name.strip(): value.strip() for name, _, value in pairs}


def _secrets_in(table: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of secrets, and the passwords in a JAAS configuration. A path is no secret (`PWD`)."""
    for name, value in table.items():
        if not is_secret(name) or value.startswith("/"):
            continue
        yield value
        yield from re.findall(r"=\s*\"([^\"]+)\"", value)


def _values_of_environment(pipeline: Path | None) -> Iterator[str]:
    """Yield the values of the environment variables in a pipeline file, except those that only have placeholders."""
    for stage in read_pipeline(pipeline).get("stage", ()) if pipeline else ():
        env = stage.get("env", {}) if isinstance(stage, Mapping) else {}
        for value in env.values() if isinstance(env, Mapping) else ():
            if isinstance(value, str) and not is_placeholder(value):
                yield value


def is_placeholder(text: str) -> bool:
    """Return whether a value in a pipeline file consists of placeholders only, such as `{bootstrap}`."""
    return re.fullmatch(r"(?:\{[\w:.-]+\})+", text) is not None


def read_pipeline(file: Path) -> dict[str, Any]:
    """Return the content of a pipeline file. A file that cannot be read is empty."""
    try:
        return read_toml(file.expanduser())
    except (OSError, ValueError):
        return {}
