"""Workers are killed by the thousand, and a history that PostgreSQL has no part in says whether anything went wrong.

    python -m benchmarks.kill --kills 10000 --zombies 200 --seed 1

Read `plan` (what is done), `directing` (who does it), `working` (what workers do and tell) and `checker` (what must
hold), in this order.
"""
