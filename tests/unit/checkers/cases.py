"""A case: a history of a few lines, and what must be said of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from histories import History


@dataclass(frozen=True, eq=False)
class Case:
    """`finds`: every anomaly with its count, no more. `because`, `broken`, `not_checked`: what must be
    among them.
    """

    name: str
    draw: Callable[[History], None]
    finds: Mapping[str, int]
    because: Mapping[str, str | None] = field(default_factory=dict)
    broken: tuple[str, ...] = ()  # parts of its sentences; none: nothing may be broken
    not_checked: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    def build(self) -> History:
        """The history."""
        history = History(**self.options)  # type: ignore[arg-type]
        self.draw(history)
        return history


CASES: list[Case] = []


def case(
    *,
    because: Mapping[str, str | None] | None = None,
    broken: tuple[str, ...] = (),
    not_checked: tuple[str, ...] = (),
    options: Mapping[str, object] | None = None,
    **finds: int,
) -> Callable[[Callable[[History], None]], Callable[[History], None]]:
    """Register a case; `lost_write=1` means that exactly one lost-write is found."""

    def register(draw: Callable[[History], None]) -> Callable[[History], None]:
        named = {name.replace("_", "-"): count for name, count in finds.items()}
        CASES.append(Case(draw.__name__, draw, named, because or {}, broken, not_checked, options or {}))
        return draw

    return register
