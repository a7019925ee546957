"""Benchmarks: each figure next to a raw-SQL loop on the same server in the same run.  Not collected by pytest."""
