"""The guarantees run on every database that is here."""

from tests.crew.fixtures import crew, database, no_leaks, own_server

__all__ = ["crew", "database", "no_leaks", "own_server"]
