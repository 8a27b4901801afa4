"""A cluster and a network in memory, for tests of faults: no Kafka runs, and a test takes milliseconds.

`fake_cluster.FakeCluster` implements `harness.cluster.Cluster`, and its field `network` is a
`fake_network.FakeNetwork`, which implements `harness.network.Network`. `fake_cluster.fault_context` returns the
context that a fault gets. This is a complete test of the fault that docs/add-a-fault.md adds:

    import pytest

    from harness.common.errors import FaultFailed
    from harness.runner.nemesis import PlannedFault, Target
    from harness.testing.fake_cluster import FakeCluster, fault_context
    from nemeses.pause_first import NEMESIS

    PLANNED = PlannedFault("pause-first", Target("broker", "1"), start_s=0.0, hold_s=9.0)


    def test_it_pauses_the_first_broker_and_resumes_it() -> None:
        cluster = FakeCluster()
        with NEMESIS.inject(fault_context(cluster), PLANNED) as effect:
            assert [broker.running for broker in cluster.brokers] == [False, True, True]
        assert effect.acted and effect.target == "broker 1"
        assert all(broker.running for broker in cluster.brokers)


    def test_a_broker_that_does_not_come_back_fails_the_run() -> None:
        cluster = FakeCluster(heal_fails=True)
        with pytest.raises(FaultFailed), NEMESIS.inject(fault_context(cluster), PLANNED):
            pass

A fault without proof must not count as acted. With `FakeCluster(moves=False)`, a broker that stops keeps its roles.
With `FakeCluster(network=FakeNetwork(proof=""))`, a cut cannot be proved. A fault whose targets are workers needs real
processes as well: see tests/unit/nemeses/test_faults.py.
"""
