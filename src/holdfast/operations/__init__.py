"""Verbs without I/O: generators that yield a statement and receive its rows.

One verb, one implementation: two runners drive them on own and borrowed connections, sync and async.  This room opens
nothing, waits for nothing and holds no SQL text; a statement is a name and its parameters.
"""
