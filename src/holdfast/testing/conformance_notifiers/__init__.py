"""What every notifier promises, as a product: plain cases, for whatever runs them.

A case is an async function that takes a `Stand`; it returns, or it raises.  There is no test framework in here:

    for case in CASES:
        if case.is_for(stand):
            await case.run(stand)

Every case wants a stand of its own: a server, file or prefix that nobody else uses meanwhile.  The claims are written
with `assert`, so Python must not run with -O.
"""

from holdfast.testing.conformance_notifiers import counting, delivery, outages, subscriptions
from holdfast.testing.conformance_notifiers.case import Case
from holdfast.testing.conformance_notifiers.stand import RestartableStand, Stand

CASES: list[Case] = [case for module in (delivery, subscriptions, counting, outages) for case in module.CASES]

__all__ = ["CASES", "Case", "RestartableStand", "Stand"]
