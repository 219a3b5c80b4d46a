"""A test that kills thousands of workers, and checks by a history kept outside PostgreSQL that no job went wrong.

    python -m benchmarks.kill --kills 10000 --zombies 200 --seed 1

Read `plan` (what is done), `directing` (who does it), `working` (what workers do and tell) and `checker` (what must
hold), in this order.
"""
