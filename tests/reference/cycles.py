"""5, 6. Cycles among operations, each named by what must be in it.

A name is decided on the graph of exactly its own kinds of edges. A strongly connected component of two or
more operations counts when, within it, no cycle is left once any one of the kinds marked `!` is taken away.

    G0              ww!
    G1c             wr!
    G1c-ww          ww! wr!
    G-single        ww wr rw!    and some cycle in it has exactly one rw edge
    G2              ww wr rw!    and none has
    X-process       as X, and process!
    X-realtime      as X, and realtime!

So `G1c-realtime` is wr and realtime edges in which wr alone has no cycle, and a `-process` cycle is a
`-realtime` one too. A finding is the set of the component's operations.
"""

from collections import defaultdict
from collections.abc import Iterable

from tests.reference.history import History, Op

Edge = tuple[int, int]
Edges = set[Edge]

KINDS = {
    "G0": (("ww",), ("ww",)),
    "G1c": (("wr",), ("wr",)),
    "G1c-ww": (("ww", "wr"), ("ww", "wr")),
    "G-single": (("ww", "wr", "rw"), ("rw",)),
    "G2": (("ww", "wr", "rw"), ("rw",)),
}
"""By name, the kinds of edges of its graph, and those that must be in the cycle."""


def edges(h: History) -> dict[str, Edges]:
    """By kind, the edges between operations, each named by the index of its completion."""
    vertices = [op for op in h.ops if op.f in ("txn", "poll", "send")]  # 5.1
    found: dict[str, Edges] = {kind: set() for kind in ("ww", "wr", "rw", "process", "realtime")}

    def add(kind: str, source: Op | None, target: Op | None) -> None:
        if source is not None and target is not None and source is not target:  # 5.1: no self edges
            found[kind].add((source.index, target.index))

    for op in vertices:
        last = {}
        # Choice: who asked for uncommitted records depends on nobody's commit, and has seen no version.
        for read in op.reads if op.promised else ():
            add("wr", h.writer.get(read.name), op)  # 5.1: all types
            last[read.key] = read.name
        for key, name in last.items():
            at = h.order.index(name)
            if at is not None:
                # Choice: readers and writers of all types, as for wr; "last" is the last one in the order
                # received; nothing is derived from two values at one offset or one at two, as for ww.
                add("rw", op, _writer_at(h, key, at + 1))
    for key, offsets in h.order.versions.items():
        for at in range(len(offsets) - 1):
            # Choice: the chain breaks at a version of which nothing may be derived (6) or that nobody wrote.
            add("ww", _writer_at(h, key, at), _writer_at(h, key, at + 1))
    for before in vertices:
        for after in vertices:
            if before.type == "ok" and before.completed < after.invoked:  # 5.1
                add("realtime", before, after)
                # Choice: process edges are the realtime edges within a process.
                if before.process == after.process:
                    add("process", before, after)
    return found


def _writer_at(h: History, key: str, index: int) -> Op | None:
    name = h.order.version(key, index)
    return None if name is None else h.writer.get(name)


def components(graph: Iterable[Edge]) -> list[frozenset[int]]:
    """Strongly connected components of two or more vertices: Kosaraju's two passes."""
    after, before = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for source, target in graph:
        after[source].append(target)
        before[target].append(source)
    finished: list[int] = []
    seen: set[int] = set()
    for root in list(after):
        stack = [(root, False)]
        while stack:
            vertex, leaving = stack.pop()
            if leaving:
                finished.append(vertex)
            elif vertex not in seen:
                seen.add(vertex)
                stack.append((vertex, True))
                stack += [(target, False) for target in after.get(vertex, ())]
    found, taken = [], set[int]()
    for root in reversed(finished):
        component = _reach(root, before, taken)
        taken |= component
        if len(component) > 1:
            found.append(frozenset(component))
    return found


def _reach(root: int, graph: dict[int, list[int]], barred: set[int] | frozenset[int]) -> set[int]:
    reached: set[int] = set()
    stack = [root]
    while stack:
        vertex = stack.pop()
        if vertex not in reached and vertex not in barred:
            reached.add(vertex)
            stack += graph.get(vertex, ())
    return reached


def _within(component: frozenset[int], *some: Edges) -> Edges:
    return {(a, b) for graph in some for a, b in graph if a in component and b in component}


def _single(component: frozenset[int], rw: Edges, rest: Iterable[Edges]) -> bool:
    """Whether some cycle has exactly one rw edge: a way back from its end to its start without another."""
    after = defaultdict[int, list[int]](list)
    for source, target in _within(component, *rest):
        after[source].append(target)
    return any(source in _reach(target, after, set()) for source, target in _within(component, rw))


def cycles(h: History) -> dict[str, set[frozenset[int]]]:
    """By name, the components that count."""
    graphs = edges(h)
    found: dict[str, set[frozenset[int]]] = {}
    if not components(set().union(*graphs.values())):
        return found
    for parent, (kinds, needed) in KINDS.items():
        for kin in ("", "process", "realtime"):
            mine = {kind: graphs[kind] for kind in (*kinds, kin) if kind}
            must = [kind for kind in (*needed, kin) if kind]
            if not all(graphs[kind] for kind in must):
                continue  # without one of these kinds there is the same graph, so no component counts
            for component in components(set().union(*mine.values())):
                left = [[e for k, e in mine.items() if k != gone] for gone in must]
                if any(components(_within(component, *some)) for some in left):
                    continue
                rest = [e for k, e in mine.items() if k != "rw"]
                if "rw" in mine and _single(component, mine["rw"], rest) != (parent == "G-single"):
                    continue
                found.setdefault(f"{parent}-{kin}" if kin else parent, set()).add(component)
    return found
