"""The invariants of all channels are verified in every test, unless PENSTOCK_CHECK says otherwise."""

from __future__ import annotations

import os

os.environ.setdefault("PENSTOCK_CHECK", "1")
