"""App: registers job types and puts the other rooms together."""

from holdfast.app.app import App
from holdfast.app.job_handle import JobHandle

__all__ = ["App", "JobHandle"]
