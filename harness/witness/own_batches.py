"""Which batches of the internal topics are a run's own, on a cluster that others use as well.

A record of the transaction log names its transactional id, and from it follow the run's producers; a committed offset
stands in a batch of such a producer, or names a group. What cannot be read is kept: it is evidence of damage.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from harness.witness import offsets_log, transaction_log
from harness.witness.fields import UndecodableField
from harness.witness.records import read_records
from harness.witness.segments import LogBatch

TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"


@dataclass
class RunBatches:
    """What is the run's. It learns the run's producers from the transaction log and from the run's own topics."""

    prefix: str | None  # of the run's transactional ids and topics; None: everything is
    groups: Collection[str] = ()
    producers: set[int] = field(default_factory=set)

    def includes(self, topic: str, batch: LogBatch) -> bool:
        """Whether a batch of a topic is of the run."""
        if self.prefix is None:
            return True
        if topic not in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            if batch.producer_id >= 0:
                self.producers.add(batch.producer_id)
            return True
        if batch.transactional or (batch.control and topic == CONSUMER_OFFSETS):
            return batch.producer_id in self.producers
        try:
            return self._named(topic, batch)
        except UndecodableField:
            return True

    def _named(self, topic: str, batch: LogBatch) -> bool:
        assert self.prefix is not None
        found = False
        for record in read_records(batch):
            if topic == TRANSACTION_STATE:
                state = transaction_log.decode(record.key, record.value)
                if state is not None and state.transactional_id.startswith(self.prefix):
                    found = True
                    if state.producer_id is not None:
                        self.producers.add(state.producer_id)
            else:
                commit = offsets_log.decode(record.key, record.value)
                found = found or (commit is not None and commit.group in self.groups)
        return found


ALL_BATCHES = RunBatches(None)
