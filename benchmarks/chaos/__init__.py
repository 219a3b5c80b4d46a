"""A test that kills and freezes workers while other programs lock, change and remove the rows of their jobs.

    python -m benchmarks.chaos --minutes 10 --seed 1

The kill proof (`benchmarks.kill`) brings the workers, the history and most rules. Read `neighbours` (the other
programs), `directing` (what happens when), `past` (what the neighbours' transactions meant for each job) and `checker`
(what must hold), in this order.
"""
