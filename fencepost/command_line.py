"""Write the shell command that repeats a run."""

import shlex
from collections.abc import Mapping

from harness.cluster.kinds.registry import CLUSTERS
from harness.settings.options import FIELDS, Options


def command_line(options: Options, command: str = "run") -> str:
    """The shell command that runs `fencepost COMMAND` with these options. It names only options that are not defaults.

    Each secret is replaced by a placeholder, which the user has to fill in.
    """
    options = options.redacted()
    fixes_brokers = CLUSTERS[options.cluster].brokers is not None
    words = ["fencepost", command]
    for key, option in FIELDS.items():
        value = getattr(options, option.name)
        default = getattr(Options(), option.name)
        if value == default or (key == "brokers" and fixes_brokers):
            continue
        if isinstance(value, Mapping):
            prefix, flag = ("", "--spark-conf") if key == "spark-conf" else (f"{key}.", "--set")
            for name, setting in value.items():
                words += [flag, f"{prefix}{name}={setting}"]
        elif key == "rule":
            words += [word for rule in value for word in ("--rule", rule)]
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
