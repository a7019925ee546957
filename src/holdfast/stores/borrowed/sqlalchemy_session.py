"""SQLAlchemy sessions, scoped or not, and what they tell about their commit."""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable
from typing import Any

from holdfast.errors import AbortedTransaction, NoTransaction, WrongConnection
from holdfast.operations.statement import Rows, Statement
from holdfast.stores.borrowed.base import BorrowingStore
from holdfast.stores.borrowed.sqlalchemy_connection import SqlalchemyConnection, SqlalchemyInGreenlet, refuse_dialect

_log = logging.getLogger("holdfast.stores.borrowed")


class SqlalchemySession:
    """A Session; one that has not begun begins as with its first statement."""

    def __init__(self, session: Any, store: BorrowingStore, tx: object = None) -> None:
        self._tx = session if tx is None else tx
        self._session = session
        self._store = store
        self._connection: SqlalchemyConnection | None = None
        refuse_dialect(self._tx, self._bind().dialect, store)

    def begin(self, *, read_only: bool = False) -> None:
        session = self._session
        if not session.is_active:
            raise AbortedTransaction
        if not session.autobegin and not session.in_transaction():
            raise NoTransaction("SQLAlchemy session with autobegin=False", "enqueue inside `with session.begin():`")
        self._connection = SqlalchemyConnection(session.connection(), self._store, self._tx)
        self._connection.begin(read_only=read_only)

    def execute(self, statement: Statement) -> Rows:
        if self._connection is None:
            raise RuntimeError("begin() comes first")
        return self._connection.execute(statement)

    def on_commit(self, callback: Callable[[], None]) -> bool:
        # Bound to a connection, the session may be a guest in a transaction that it does not commit.
        if not hasattr(self._bind(), "connect"):
            return False
        after_commit(self._session, callback)
        return True

    def refuse_commit(self) -> None:
        if self._connection is None:
            raise RuntimeError("begin() comes first")
        self._connection.refuse_commit()

    def _bind(self) -> Any:
        try:
            return self._session.get_bind()
        except sys.modules["sqlalchemy.exc"].UnboundExecutionError:
            raise WrongConnection(
                self._tx, "it has no engine of its own (or several); pass session.connection(bind_arguments={…})"
            ) from None


def scoped_session(tx: Any, store: BorrowingStore) -> SqlalchemySession:
    """For a scoped_session: the session of this scope."""
    return SqlalchemySession(tx(), store, tx)


def async_session(tx: Any, store: BorrowingStore) -> SqlalchemyInGreenlet:
    """For an AsyncSession."""
    return SqlalchemyInGreenlet(tx, SqlalchemySession(tx.sync_session, store, tx))


def async_scoped_session(tx: Any, store: BorrowingStore) -> SqlalchemyInGreenlet:
    """For an async_scoped_session: the session of this scope."""
    session = tx()
    return SqlalchemyInGreenlet(session, SqlalchemySession(session.sync_session, store, tx))


class _AfterCommit:
    """The callbacks that wait for a session's commit.

    SQLAlchemy tells of commits per session and of savepoints alike, so every callback knows the innermost transaction
    it belongs to: released, it moves to the one around it; rolled back, its transaction never commits.
    """

    def __init__(self, session: Any) -> None:
        self._session = weakref.ref(session)
        self._waiting: list[tuple[weakref.ref[Any], Callable[[], None]]] = []
        self._watched: weakref.ref[Any] | None = None

    def add(self, session: Any, callback: Callable[[], None]) -> None:
        event = sys.modules["sqlalchemy.event"]
        if not event.contains(session, "after_commit", self._committed):
            event.listen(session, "after_commit", self._committed)
        outermost = session.get_transaction()
        if self._watched is None or self._watched() is not outermost:
            self._watched = weakref.ref(outermost)
            # A listener cannot remove itself while SQLAlchemy walks the list, and close() announces nothing after it;
            # but at the end of commit, rollback and close alike the session lets go of its transaction.
            weakref.finalize(outermost, self._unlisten).atexit = False
        self._waiting.append((weakref.ref(_innermost(session)), callback))

    def _committed(self, session: Any) -> None:
        done = _innermost(session)
        mine = [callback for owner, callback in self._waiting if owner() is done]
        self._waiting = [entry for entry in self._waiting if entry[0]() is not done]
        if done.nested:
            outer = weakref.ref(_boundary(done.parent))
            self._waiting += [(outer, callback) for callback in mine]
            return
        for callback in mine:
            try:
                callback()
            except Exception:  # noqa: BLE001 - whatever it is, the user's data is committed
                _log.exception("a callback after the commit of a borrowed SQLAlchemy session failed")

    def _unlisten(self) -> None:
        self._waiting = [entry for entry in self._waiting if entry[0]() is not None]
        session = self._session()
        # Inactive: some commit is being announced right now, after which somebody let go of an older transaction.
        if session is not None and session.is_active and not self._waiting:
            event = sys.modules["sqlalchemy.event"]
            if event.contains(session, "after_commit", self._committed):
                event.remove(session, "after_commit", self._committed)


_sessions: weakref.WeakKeyDictionary[Any, _AfterCommit] = weakref.WeakKeyDictionary()


def after_commit(session: Any, callback: Callable[[], None]) -> None:
    """Call back when the transaction that the session is in has been committed."""
    listener = _sessions.get(session)
    if listener is None:
        listener = _sessions[session] = _AfterCommit(session)
    listener.add(session, callback)


def _innermost(session: Any) -> Any:
    return session.get_nested_transaction() or session.get_transaction()


def _boundary(transaction: Any) -> Any:
    """The savepoint or outermost transaction; flushes open others in between that mean nothing to the database."""
    while not transaction.nested and transaction.parent is not None:
        transaction = transaction.parent
    return transaction
