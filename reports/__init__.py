"""Show a verdict to people and programs: as HTML, as JUnit XML, and as lines on the console.

`story` is what happened in a run: begin there. A drawing is `pictures/NAME`, made from the story; a page is
`html/NAME`. Sentences are in `summary`, `findings_text` and `liveness_text`. `compare` compares runs, `suites` shows
suites, and `reproducer` makes a folder for the public from a run.
"""
