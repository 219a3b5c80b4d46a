"""`ferryman bench`: measure Ferryman on one's own server, and say what the figures mean.

`command` reads the options, `ground` makes the schema and drops it, `measuring` measures, `figures` holds what came of
it, `advice` draws the conclusions, and `report` prints both.
"""
