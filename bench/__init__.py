"""Throughput, latency and growth of Holdfast, measured next to plain SQL; run with `python3 dev.py bench`."""
