"""The command that repeats a run, or acts on what it has left."""

import shlex
from collections.abc import Mapping

from harness.cluster.kinds.registry import CLUSTERS
from harness.settings.options import FIELDS, Options


def command_line(options: Options, command: str = "run") -> str:
    """The command that repeats a run, or another with these options: what differs from the defaults, and the seed.

    A placeholder stands for each secret: the user has to fill it in.
    """
    options = options.redacted()
    has_own_number = CLUSTERS[options.cluster].brokers is not None
    words = ["fencepost", command]
    for key, option in FIELDS.items():
        value = getattr(options, option.name)
        default = getattr(Options(), option.name)
        if value == default or (key == "brokers" and has_own_number):
            continue
        if isinstance(value, Mapping):
            prefix, flag = ("", "--spark-conf") if key == "spark-conf" else (f"{key}.", "--set")
            for name, setting in value.items():
                words += [flag, f"{prefix}{name}={setting}"]
        elif option.metadata["flag"]:
            words += [f"--{key}", _as_text(value)]
        else:
            words += ["--set", f"{key}={_as_text(value)}"]
    return shlex.join(words)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
