"""Kafka's wire protocol without a client library: connections, TLS, SASL and tokens.

Begin with `protocol` (a request and its response on a connection).
"""
