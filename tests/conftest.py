"""The invariants of all channels are verified in every test, unless PENSTOCK_CHECK says otherwise."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("PENSTOCK_CHECK", "1")

# A machine that is busy must not fail a property: how long an example takes is no fault of it.
settings.register_profile("penstock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("penstock")
