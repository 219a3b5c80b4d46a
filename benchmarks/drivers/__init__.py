"""One small program for each product, run in that product's own environment. `contract.py` says what they do."""
