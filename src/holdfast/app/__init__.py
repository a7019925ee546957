"""App: registers job types and puts the other rooms together."""

from holdfast.app.app import App
from holdfast.app.draining import Drained
from holdfast.app.job_handle import JobHandle

__all__ = ["App", "Drained", "JobHandle"]
