"""What `ctx.continue_with(…)` gives a handler to return."""

from __future__ import annotations

from holdfast.model.call import JobDocument


class NextJob:
    """Stands for the output that the chain will have one day; the worker writes the job with the completion."""

    __slots__ = ("document",)

    def __init__(self, document: JobDocument) -> None:
        self.document = document

    def __repr__(self) -> str:
        return f"<NextJob {self.document.type_name} {self.document.id}>"
