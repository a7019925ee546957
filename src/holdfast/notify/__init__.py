"""Wake-up hints: never truth.  Everything works with none delivered; polling lies below.

With `stores`, the only room that imports drivers.
"""

from holdfast.notify.base import ChainListener, Hinter, Notifier, Silence, Waker
from holdfast.notify.open import NotifierConfig, checked_notifier, open_notifier
from holdfast.notify.polling import PollingNotifier

__all__ = [
    "ChainListener",
    "Hinter",
    "Notifier",
    "NotifierConfig",
    "PollingNotifier",
    "Silence",
    "Waker",
    "checked_notifier",
    "open_notifier",
]
