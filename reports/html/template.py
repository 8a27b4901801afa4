"""How the templates of all pages are drawn: what a page is told is escaped, and what it is not told is an error."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


def template(name: str, filters: Mapping[str, Any]) -> Template:
    """The template of that name in this room, with filters of the page's own."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)
