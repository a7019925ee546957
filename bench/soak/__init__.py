"""A long mixed load: what must not grow while work comes and goes."""
