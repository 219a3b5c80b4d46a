"""`ferryman bench`: measures Ferryman on your own server, and says what the figures mean.

`bench_command` reads the options, `bench_schema` creates a schema and drops it, `measuring` measures, `figures` holds
the setup and the results, `advice` draws conclusions, and `bench_report` reports both.
"""
