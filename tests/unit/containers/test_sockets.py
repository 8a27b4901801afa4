from harness.containers.container import ContainerConnection, read_established

TABLES = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 030012AC:4E20 020012AC:D431 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
   2: 030012AC:4E21 020012AC:D432 08 00000000:00000000 00:00000000 00000000     0        0 3 1 0 20 4 30 10 -1
  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 0000000000000000FFFF0000030012AC:4E22 0000000000000000FFFF0000020012AC:4E23 01 00000000:00000000 00:00000000
"""


def test_only_established_connections_are_read() -> None:
    assert list(read_established(TABLES)) == [
        ContainerConnection(20000, 54321),
        ContainerConnection(20002, 20003),
    ]


def test_empty_tables_have_no_connections() -> None:
    assert list(read_established("")) == []
