"""Select a run's batches of internal topics, on a cluster that other programs use too.

A record of the transaction log names a transactional id and its producer id. An offset commit of the run is in a batch
with such a producer id, or names a group of the run. A batch that cannot be decoded counts as the run's, because it is
evidence of damage.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from harness.model.pipeline import CONSUMER_OFFSETS, TRANSACTION_STATE
from harness.witness import offsets_log, transaction_log
from harness.witness.fields import UndecodableField
from harness.witness.records import read_records
from harness.witness.segments import LogBatch


@dataclass
class RunBatches:
    """Selects the run's batches. It collects the run's producer ids from the transaction log and the run's topics."""

    prefix: str | None  # the prefix of the run's transactional ids; None: all batches are selected
    groups: Collection[str] = ()
    producers: set[int] = field(default_factory=set)

    def includes(self, topic: str, batch: LogBatch) -> bool:
        """Return whether a batch belongs to the run."""
        if self.prefix is None:
            return True
        if topic not in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            if batch.producer_id >= 0:
                self.producers.add(batch.producer_id)
            return True
        if batch.transactional or (batch.control and topic == CONSUMER_OFFSETS):
            return batch.producer_id in self.producers
        try:
            return self._names_run(topic, batch)
        except UndecodableField:
            return True

    def _names_run(self, topic: str, batch: LogBatch) -> bool:
        assert self.prefix is not None
        is_own = False
        for record in read_records(batch):
            if topic == TRANSACTION_STATE:
                state = transaction_log.decode(record.key, record.value)
                if state is not None and state.transactional_id.startswith(self.prefix):
                    is_own = True
                    if state.producer_id is not None:
                        self.producers.add(state.producer_id)
            else:
                commit = offsets_log.decode(record.key, record.value)
                is_own = is_own or (commit is not None and commit.group in self.groups)
        return is_own


ALL_BATCHES = RunBatches(None)
