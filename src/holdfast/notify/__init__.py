"""Wake-up hints: never truth.  Everything works with none delivered; polling lies below.

With `stores`, the only room that imports drivers.
"""

from holdfast.notify.base import ChainListener, Hinter, Silence, Waker
from holdfast.notify.open import chain_channel, open_chain_listener, open_hinter, open_waker

__all__ = [
    "ChainListener",
    "Hinter",
    "Silence",
    "Waker",
    "chain_channel",
    "open_chain_listener",
    "open_hinter",
    "open_waker",
]
