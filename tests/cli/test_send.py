from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import penstock as ps
from penstock.cli import commands
from penstock.spark.streaming.checkpoint import Checkpoint
from penstock.spark.streaming.description import describe


class Limit(ps.State):
    level: float


class Tune(ps.Signal):
    level: float
    weights: ps.array(int, 2)
    hard: bool


def tune(state: Any, signal: Any) -> None:
    state.level = signal.level


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    stream = ps.from_items([], schema={"v": float}).filter(lambda v, state: v > state.level, state=Limit).on(Tune, tune)
    made = Checkpoint(tmp_path / "ck")
    made.open(describe([stream.node], buckets=1, sink="none"))
    made.close()
    return made


def send(checkpoint: Checkpoint, *arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(commands.commands, ["send", checkpoint.given, *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


VALUES = ("level=0.05", "weights=1,-2", "hard=yes")


def test_the_place_is_printed(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream's part is played between writing and waiting."""
    write = Checkpoint.write_signal

    def write_and_place(self: Checkpoint, signal: str, values: Any) -> str:
        name = write(self, signal, values)
        self.note_placed(name, 17, 1200)
        return name

    monkeypatch.setattr(Checkpoint, "write_signal", write_and_place)
    assert send(checkpoint, "Tune", *VALUES).stdout == "Tune stands before item 1200, in batch 17\n"
    (name,) = checkpoint.names("control")
    assert checkpoint.read_signal(name, {"Tune": Tune}) == Tune(0.05, [1, -2], True)


def test_nobody_answers(checkpoint: Checkpoint) -> None:
    result = send(checkpoint, "Tune", *VALUES, "--timeout", 0, code=3)
    assert result.stdout == "" and result.stderr == (
        f"send: {checkpoint.given!r}: a signal must be placed by a stream that runs; none has placed it within 0 s; it "
        f"waits, and will be placed when the stream runs\n"
    )
    assert len(checkpoint.names("control")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Tone", *VALUES), "got 'Tone', and there are Tune(level: float, weights: array of 2 int, hard: bool)"),
        (("Tune", "level=high", *VALUES[1:]), "Tune.level must be float; got 'high'"),
        (("Tune", "level=1", "weights=[1, x]", "hard=no"), "Tune.weights must be array of 2 int; got [1, ' x']"),
        (("Tune", "level=1", "weights=1,2", "hard=7"), "Tune.hard must be bool; got '7'"),
        (("Tune", "level=1", "weights=1,2"), "it must be given 'hard'"),
        (("Tune", "lvl=1", *VALUES), "it has no field 'lvl'"),
        (("Tune", "0.05"), "send: a field must be given as name=value; got '0.05'"),
    ],
)
def test_what_is_refused(checkpoint: Checkpoint, arguments: tuple[str, ...], message: str) -> None:
    refused = send(checkpoint, *arguments, code=1)
    assert refused.stderr.startswith("Error: send: ") and message in refused.stderr
    assert checkpoint.names("control") == []


def test_a_folder_that_is_no_checkpoint(tmp_path: Path) -> None:
    refused = send(Checkpoint(tmp_path / "none"), "Tune", *VALUES, code=1)
    assert "must be the checkpoint of a stream; it has no 'penstock/graph.json'; start the stream" in refused.stderr
    assert not (tmp_path / "none").exists()
