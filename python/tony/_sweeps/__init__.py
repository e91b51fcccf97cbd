"""Sweeps: their search spaces, trials and tables of results."""
