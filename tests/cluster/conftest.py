"""A cluster for each test that asks for one: tests kill its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.standalone import Cluster, running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A master and two workers of one core each; `cluster.url` is the master's address."""
    with running(tmp_path) as found:
        yield found
