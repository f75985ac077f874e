"""How regions travel: what is decided is what runs, and what is reported."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.plan.passes.contexts import decide


def sums() -> ps.Stream:
    blobs = ps.from_items([{"id": at, "values": [at, -at, at]} for at in range(50)], name="blobs")
    return blobs.enumerate("values", as_="v").filter(lambda v: v > 0).aggregate(total=ps.sum("v"))


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("context", ["sparse", "dense", "lane"])
def test_explain_reports_the_context_that_runs(context: str, cores: int) -> None:
    run = sums().prepare(spark=False, compile=False, fuse=False, context=context, cores=cores)
    told = [line for line in run.explain().splitlines() if line.strip().startswith("context: ")]
    assert run.collect()["total"].to_pylist() == [2 * at for at in range(50)]
    used = {edge.context for edge in run.statistics().edges}
    assert used == {"lane" if context == "dense" and cores == 2 else context}
    if context == "dense" and cores == 2:
        reason = "on several cores regions travel by their marks, so that dense, which was asked for, is not possible"
        assert all(reason in line and "lane" in line for line in told)
    else:
        assert all("asked for" in line and context in line for line in told)
    assert told


def test_every_case_is_decided() -> None:
    found = {
        (wanted, has_places, cores): decide(wanted, has_regions=True, has_places=has_places, cores=cores).value
        for wanted in ("auto", "sparse", "dense", "lane")
        for has_places in (False, True)
        for cores in (1, 2)
    }
    assert [found[wanted, False, 1] for wanted in ("auto", "sparse", "dense", "lane")] == [
        "auto",
        "sparse",
        "dense",
        "lane",
    ]
    assert all(found["sparse", places, cores] == "sparse" for places in (False, True) for cores in (1, 2))
    assert {
        context for (wanted, places, cores), context in found.items() if wanted != "sparse" and (places or cores > 1)
    } == {"lane"}
    assert decide("dense", has_regions=False, has_places=False, cores=1).value == "lane"
