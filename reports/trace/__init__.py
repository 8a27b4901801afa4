"""Show what happened to one record or transaction, or around one fault: events of clients, readers and brokers in order
of time.
"""
