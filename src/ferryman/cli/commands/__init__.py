"""The commands of `ferryman` but for `worker` and `bench`, which have folders of their own.

`ferryman.cli.program` names each of them in its table.
"""
