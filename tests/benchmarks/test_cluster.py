"""The comparison of the model of clusters with what is measured, but for the measuring."""

from __future__ import annotations

from benchmarks.cluster import PLATFORMS, PROFILED, Compared, PlatformCase, listed


def test_the_platforms_are_those_that_are_asked_for() -> None:
    assert [each.name for each in PLATFORMS] == ["local[1]", "local[2]", "1 worker", "2 workers", "3 workers"]
    assert {PlatformCase(PROFILED, is_local) for is_local in (True, False)} < set(PLATFORMS)


def test_how_far_off_a_prediction_is() -> None:
    found = Compared("taxi", "small", "local[2]", 0.9, 1.0, (1.0, 1.0))
    assert round(found.off, 6) == -0.1
    assert "-10.0%" in listed([found])
    assert found.as_dict()["off"] == found.off
