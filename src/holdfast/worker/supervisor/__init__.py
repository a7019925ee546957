"""Several worker processes under one: started, watched, restarted, stopped together.

It never opens a database and never imports the user's code: what a process can and cannot do it learns from the
process.
"""

from holdfast.worker.supervisor.leash import Leash
from holdfast.worker.supervisor.reload import FileWatch
from holdfast.worker.supervisor.supervisor import Supervisor, SupervisorConfig

__all__ = ["FileWatch", "Leash", "Supervisor", "SupervisorConfig"]
