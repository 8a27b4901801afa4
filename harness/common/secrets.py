"""Recognise secrets, and replace them before they are stored or shown.

Secrets are: the value of a setting whose name says so (`spark.hadoop.fs.s3a.secret.key`), the user and the password in
a URL, and within another text the value after `password=`, `"password":`, `--password` or `Bearer`. Only names decide,
as in Spark's `spark.redaction.regex`. A secret whose name does not say so is not recognised.
"""

import re
from collections.abc import Mapping

REDACTED = "<redacted>"
"""The placeholder of a secret in `run.toml` and in the command that repeats a run. A run refuses it as a value."""

SECRET_WORDS = r"secret|passw(?:or)?d|passphrase|token|jaas|(?:access|api|private|account|shared)[._-]?key"
"""A pattern for the words in a name that say that its value is a secret."""
_NAME = re.compile(rf"{SECRET_WORDS}|(?:^|[._-])(?:key|pwd|auth)(?:$|[._-])|credentials?$", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^\s/?#'\"]*@")
_QUOTED = r"\"[^\"]*\"|'[^']*'"
_WITHIN = re.compile(
    rf"((?:{SECRET_WORDS})[\w.-]*\s*=\s*|"  # -Dsome.password=..., ?token=...
    rf"(?:{SECRET_WORDS})[\w.-]*[\"']\s*:\s*|"  # "some.password": "..."
    rf"--?[\w.-]*(?:{SECRET_WORDS})[\w.-]*\s+(?!-)|"  # --some-password ...
    rf"\bBearer\s+)({_QUOTED}|[^\s\"'&;,]+)",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Return whether the name of a setting says that its value is a secret."""
    return _NAME.search(name) is not None


def redact_text(text: str) -> str:
    """Replace the user and password of each URL in a text, and each value that follows the name of a secret."""
    return _WITHIN.sub(rf"\1{REDACTED}", _USERINFO.sub(f"{REDACTED}@", text))


def redact_setting(name: str, value: str) -> str:
    """Return the value of a setting, or the placeholder if it is a secret."""
    if value.lower() in ("true", "false"):  # spark.hadoop.hadoop.security.token.service.use_ip
        return value
    return REDACTED if is_secret(name) else redact_text(value)


def redacted_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by name, with the placeholder for each secret."""
    return {name: redact_setting(name, value) for name, value in settings.items()}
