"""A picture in every width that a report is read in."""

from dataclasses import dataclass

from markupsafe import Markup

WIDTHS = (920, 350)
"""Every drawing is made twice, for a desk and for a hand; the style sheet shows one of them."""


@dataclass(frozen=True)
class Drawings:
    """One picture in all widths; empty if there was nothing to draw."""

    wide: Markup | None
    narrow: Markup | None

    def __bool__(self) -> bool:
        return self.wide is not None
