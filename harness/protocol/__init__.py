"""The protocol proxy: a process on links that carry Kafka's protocol. It holds, changes and answers messages by rules.

Begin with `rules` (what a rule selects and does) and `proxy` (the process). `schemas` decodes messages.
"""
