"""The two client faces: `AsyncClient` is written, `Client` is generated from it.

A client checks, sends and reads; it runs no jobs and keeps no state about them.
"""

from holdfast.client.async_client import AsyncClient
from holdfast.client.client import Client

__all__ = ["AsyncClient", "Client"]
