"""How the workers of a stage are members of its consumer group: the words of the options, and what does not go together."""

PROTOCOLS = ("classic", "consumer")
ASSIGNORS = ("eager", "cooperative")
