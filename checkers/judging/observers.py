"""Whether the observers saw anything: a blind one writes nothing, and would pass for one that found nothing.

An observer says at its end how many records it was given of every partition that it was promised. Journals of
earlier versions do not, and are taken as they are.
"""

from collections import defaultdict

from checkers.judging.gathered import Facts, Incomplete
from harness.history import Role


def observe(facts: Facts, found: Incomplete) -> None:
    """An observer that says at its end what it was given was given what is there, and something."""
    given: dict[int, int] = defaultdict(int)
    for row in facts.ends:
        here = facts.partitions.get(row["tp"])
        if row.get("role") != Role.OBSERVER.value or here is None:
            continue
        given[row["tp"]] += row["read"]
        if (visible := here.get("visible", 0)) and not row["read"]:
            name = facts.name(row["tp"])
            found.add(
                f"observer of {name}",
                f"the observer ({row['journal']}) was given nothing of {name}, where {visible} records are "
                "visible",
                "polls",
            )
    for tp, count in sorted(given.items()):
        there, name = facts.partitions[tp].get("observed", 0), facts.name(tp)
        if there != count:
            found.add(
                f"observer of {name}",
                f"the table polls holds {there} records of {name} for observers, and they were given {count}",
                "polls",
            )
