"""Find in a program's output the line that says why it did not start, and what to do about it."""

import re

_CAUSES = (
    (r"address already in use|failed to bind|port is already allocated", "a port is taken"),
    (
        r"insufficient memory|could not reserve|cannot allocate memory|outofmemoryerror|native thread",
        "there is not enough memory: close other programs, or lower --set heap-mb",
    ),
    (r"no space left on device", "the disk is full: make room, or choose another --store"),
    (r"configexception|invalid value", "a broker setting is wrong: check those set with --set broker.*"),
    (r"too many open files", "too many files are open: raise the limit (ulimit -n)"),
)
_ERROR_WORDS = re.compile(r"exception\b|\berror\b|\bfatal\b|caused by", re.IGNORECASE)
_FRAME = re.compile(r"^\s+(at |\.\.\. )")
_LONGEST = 300


def port_taken(text: str) -> bool:
    """Return whether a program's output says that another process uses its port."""
    return re.search(_CAUSES[0][0], text, re.IGNORECASE) is not None


def diagnosis(text: str) -> str:
    """Return the last line of a log that reports an error. If its meaning is known, the meaning comes first.

    `a port is taken (Socket server failed to bind to 127.0.0.1:9092: Address already in use.)`
    """
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    if not lines:
        return "it printed nothing"
    for pattern, meaning in _CAUSES:
        for line in reversed(lines):
            if re.search(pattern, line, re.IGNORECASE):
                return f"{meaning} ({_shorten(line)})"
    error_line = next((line for line in reversed(lines) if _ERROR_WORDS.search(line)), lines[-1])
    return _shorten(error_line)


def _shorten(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
