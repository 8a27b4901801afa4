"""Pictures of the story. A picture reads no table (a contract of import-linter).

`axis` is the time axis, made of `lanes`; `static` is for pages without JavaScript; `sequence` is the diagram of a
finding; `perfetto` is the export, written to `tracks`; `trace_lines` is what `fencepost trace` prints.
"""
