"""Measures how fast Ferryman and its peers are, as ratios within one run.

Machines are shared and noisy; absolute figures mean little.
"""
