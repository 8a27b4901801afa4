"""Pictures of the story: the time axis, static drawings, the diagram of a finding, the lines of a trace, Perfetto.

A picture gets the story, or spans, points and messages of it, and reads no table (a contract of import-linter).
"""
