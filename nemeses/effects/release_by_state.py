"""Release what a rule keeps when the transaction log shows a state.

The protocol proxy cannot read the log. So a thread of the run asks the coordinator for the states of the transactions
whose requests are kept, and tells the proxy which to deliver.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from harness.network.ruled import RuleInForce
from harness.protocol.state import HeldRequest
from harness.runner.nemesis import FaultContext

EVERY_S = 0.002
"""A completed state lasts only until the producer begins its next transaction, which may be milliseconds."""
IDLE_S = 0.02
"""How often to look for a request while none is kept."""


@contextmanager
def releasing_by_state(context: FaultContext, rule: RuleInForce) -> Iterator[None]:
    """Watch the transactions of all requests that the rule keeps, for the length of a `with`.

    At the end, the requests whose state was not seen are delivered, and the evidence has the last state that was seen.
    Raises `FaultFailed` if the proxy does not answer.
    """
    healed = Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(_watch, context, rule, healed)
        try:
            yield
        finally:
            healed.set()
        watching.result()


def _watch(context: FaultContext, rule: RuleInForce, healed: Event) -> None:
    states = rule.rule.release.states
    seen: Counter[int] = Counter()  # by request: how many of the states were seen
    last: dict[int, str] = {}
    requests: Sequence[HeldRequest] = ()
    while not healed.wait(context.scaled(EVERY_S if requests else IDLE_S)):
        requests = rule.status.await_states
        for request in requests:
            view = context.cluster.describe_transaction(request.transactional_id)
            last[request.number] = str(view) if view is not None else "not known"
            if view is None or view.state != states[seen[request.number]]:
                continue
            seen[request.number] += 1
            if seen[request.number] == len(states):
                rule.release(request.number, f"when its transaction was {view}")
    for request in rule.status.await_states:
        awaited = states[seen[request.number]]
        rule.release(
            request.number,
            f"at the heal, because its transaction was not seen in {awaited}: it was last "
            f"{last.get(request.number, 'not known')}",
            in_time=False,
        )
