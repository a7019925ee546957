"""Wake-up hints: never truth.  Everything works with none delivered; polling lies below.

With `stores`, the only room that imports drivers.
"""

from holdfast.notify.base import Hinter, Silence, Waker
from holdfast.notify.open import open_hinter, open_waker

__all__ = ["Hinter", "Silence", "Waker", "open_hinter", "open_waker"]
