"""One small program per contender, each run in that contender's own environment. `contract.py` says what they do."""
