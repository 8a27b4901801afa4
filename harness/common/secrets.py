"""Secrets: what is never written down or shown, and what stands in its place.

A setting is a secret if its name says so (`spark.hadoop.fs.s3a.secret.key`), and so are the user and the
password in a URL and the value after `password=` within another value. Names decide, as in Spark's own
`spark.redaction.regex`: a secret under an innocent name is not recognised.
"""

import re

REDACTED = "<redacted>"
"""Stands for a secret in `run.toml` and in the command that repeats a run; a run refuses it as a value."""

_WORDS = r"secret|passw(?:or)?d|passphrase|token|jaas|(?:access|api|private|account|shared)[._-]?key"
_NAME = re.compile(rf"{_WORDS}|(?:^|[._-])(?:key|pwd|auth)(?:$|[._-])|credentials?$", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^\s/?#'\"]*@")
_WITHIN = re.compile(
    rf"((?:{_WORDS})[\w.-]*\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s\"'&;,]+)", re.IGNORECASE
)  # -Dsome.password=..., ?token=...


def is_secret(name: str) -> bool:
    """Whether the name of a setting says that its value is a secret."""
    return _NAME.search(name) is not None


def redact_text(text: str) -> str:
    """A text for people to read: without the user and password of a URL, or a value after `password=`."""
    return _WITHIN.sub(rf"\1{REDACTED}", _USERINFO.sub(f"{REDACTED}@", text))


def redact_setting(name: str, value: str) -> str:
    """The value of a setting as it may be written down."""
    if value.lower() in ("true", "false"):  # spark.hadoop.hadoop.security.token.service.use_ip
        return value
    return REDACTED if is_secret(name) else redact_text(value)
