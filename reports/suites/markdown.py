"""Texts that may hold anything, in Markdown."""

import re

from harness.telling.words import printable


def plain(text: str, limit: int = 400) -> str:
    """A text in which nothing is markup, and nobody is mentioned."""
    told = re.sub(r"([\\`*_|<>\[\]#&])", r"\\\1", printable(text, limit))
    return re.sub(r"(?<!\w)@", "@\u200b", told)


def code(text: str) -> str:
    """A command: within a table a stroke needs its escape even there."""
    told = printable(text, 1000).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", told)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{told}{pad}{fence}"
