"""The description of a run before it begins: its vocabulary, its pipeline and its promises.

Begin with `vocabulary` (operations, outcomes, roles) and `pipeline` (the interface behind every workload, and the
`PipelineSpec` that is stored with a run). `expectation` defines the expected outputs of inputs.
"""
