from harness.cluster.started_node import diagnosis, port_taken

BIND = """\
12:00:00 INFO starting (kafka.server)
12:00:01 ERROR Fatal error during broker startup. (kafka.server)
kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:20001: Address already in use.
\tat kafka.network.Acceptor.openServerSocket(SocketServer.scala:700)
\t... 12 more
12:00:02 INFO shut down completed (kafka.server)
"""


def test_a_log_of_a_taken_port_says_so_with_its_number() -> None:
    assert port_taken(BIND)
    assert diagnosis(BIND).startswith("a port is taken (kafka.common.KafkaException: Socket server")
    assert "20001" in diagnosis(BIND)


def test_too_little_memory_says_what_to_do() -> None:
    text = "Error occurred during initialization of VM\nCould not reserve enough space for object heap\n"
    assert "--set heap-mb" in diagnosis(text)
    assert not port_taken(text)


def test_a_full_disk_says_what_to_do() -> None:
    assert "make room" in diagnosis("ERROR java.io.IOException: No space left on device\nINFO bye\n")


def test_the_line_that_names_a_wrong_setting_is_returned() -> None:
    line = "org.apache.kafka.common.config.ConfigException: Invalid value x for configuration node.id"
    assert line in diagnosis(f"{line}\n\tat somewhere\nINFO bye\n")


def test_the_last_line_that_reports_an_error_is_returned_without_frames() -> None:
    text = "a.AException: first\n\tat b.Exception.c(D.java)\nCaused by: x.YException: why\n\tat z\nbye\n"
    assert diagnosis(text) == "Caused by: x.YException: why"


def test_without_an_error_the_last_line_is_returned() -> None:
    assert diagnosis("one\ntwo\n\n") == "two"
    assert diagnosis("") == "it printed nothing"


def test_a_long_line_is_shortened() -> None:
    assert len(diagnosis("x" * 5000)) == 300
