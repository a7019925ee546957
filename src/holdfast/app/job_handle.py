"""What `@app.job` returns: the job type with its function, for enqueueing and for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

from holdfast.model.call import Call, EnqueueOptions
from holdfast.model.job import Chain
from holdfast.model.job_type import JobType

if TYPE_CHECKING:
    from holdfast.app.app import App

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class UsingOptions(EnqueueOptions, total=False):
    """Enqueue options and the transaction to enqueue in."""

    tx: Any


class JobHandle(Generic[P, R_co]):
    """A registered job type."""

    def __init__(self, app: App, job_type: JobType, fn: Callable[..., Any]) -> None:
        #: whose it is
        self.app = app
        self.job_type = job_type
        self._encode = job_type.signature.encode
        #: the plain function, for unit tests
        self.fn = fn
        self.__doc__ = fn.__doc__
        self.__name__ = getattr(fn, "__name__", job_type.name)

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        return self.job_type.name

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """The arguments, checked and encoded, to be enqueued by a client."""
        job_type = self.job_type
        payload = self._encode(args, kwargs)
        if not job_type.has_options:
            return Call(job_type, payload)
        return Call(job_type, payload, defaults=cast("EnqueueOptions", job_type.options_of(args, kwargs)))

    def using(self, **options: Unpack[UsingOptions]) -> BoundJob[P, R_co]:
        """The same job type with enqueue options: `send.using(tx=session, delay=60).enqueue(order_id=1)`."""
        return BoundJob(self.app, self, options)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Chain[R_co]:
        """Enqueue in a transaction of its own, through the app's shared client."""
        return self.using().enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Chain[R_co]:
        """`enqueue` for async code."""
        return await self.using().aenqueue(*args, **kwargs)

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        raise TypeError(
            f"{self.name} is a job type: use {self.name}.enqueue(…) or client.enqueue({self.name}.call(…)); "
            f"call the plain function with {self.name}.fn(…)"
        )

    def __repr__(self) -> str:
        return f"<JobHandle {self.name}>"


class BoundJob(Generic[P, R_co]):
    """A job type with options, waiting for arguments."""

    def __init__(self, app: App, handle: JobHandle[P, R_co], options: UsingOptions) -> None:
        self._app = app
        self._handle = handle
        self._options = options

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Chain[R_co]:
        """Enqueue with the options given before."""
        return self._app.shared_client.enqueue(self._handle.call(*args, **kwargs), **self._options)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Chain[R_co]:
        """`enqueue` for async code."""
        client = await self._app.shared_async_client()
        return await client.enqueue(self._handle.call(*args, **kwargs), **self._options)
