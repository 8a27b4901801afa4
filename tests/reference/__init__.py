"""The client's own anomalies, defined in plain Python, and the histories to try the definition on.

Nothing here knows Spark or a checker. The numbers in comments (`# 3.1`) are the paragraphs of the written
definition that the code below them follows; `Choice:` marks where that text leaves room.
"""
