"""The performance model: timed Petri nets of stream programs on cores, and what they say a program will give.

From a program to a prediction it is three steps, each a record that can be looked at:

1. `Platform(tasks, arcs, cores=…, tokens=…, memory=…, alpha=…, beta=…, …)` in `platform`: the program, its
   mapping and the numbers of the machine. `Task(name, time, core, copies=(core, …))` has the time of one block: an int
   or a Fraction, or `Drawn(times)` for a measured distribution, or `Traced(times)` for a recorded sequence. It is
   flexible where it has copies. `Arc(source, target, size=bytes, capacity=blocks)` joins two tasks. All times are
   in one unit, exact; round what was measured to whole nanoseconds.
2. `net_of(platform)` in `platform_net`: the `Net` of places and transitions, for whoever wants to see it
   (`report.net.picture`), to simulate it otherwise (`simulate.simulate`) or to compute it exactly
   (`exact.cycle_rate`, where nothing is chosen). Its names are made of those of tasks, arcs and cores: a task's
   transition is called as the task, its copy's `task on core`.
3. `predict(platform, firings=…, seed=…)` in `prediction`: a `Prediction` with throughput, latency, utilisation of
   each core, queue lengths, the critical resource and the shares of copies; exact fractions where all times are
   constant.

To change one thing, use `dataclasses.replace(platform, …)`. Draws of a task depend on the seed, the task's name and the
number of the firing only, so that two platforms with the same seed meet the same luck and can be compared.

A net that is none of these is built from `constructs`, or by hand from `Place` and `Transition`. Whatever is
wrong is a `ModelError`: where, what must be, what was, what to do. A net that deadlocks names the places that lack
tokens.

This part never imports the engine; it reads records.
"""

from penstock.tune.model.exact import cycle_rate as cycle_rate
from penstock.tune.model.exact import slowest_cycle as slowest_cycle
from penstock.tune.model.net import Constant as Constant
from penstock.tune.model.net import Drawn as Drawn
from penstock.tune.model.net import Net as Net
from penstock.tune.model.net import Place as Place
from penstock.tune.model.net import Traced as Traced
from penstock.tune.model.net import Transition as Transition
from penstock.tune.model.platform import Arc as Arc
from penstock.tune.model.platform import Platform as Platform
from penstock.tune.model.platform import Task as Task
from penstock.tune.model.platform_net import net_of as net_of
from penstock.tune.model.prediction import Prediction as Prediction
from penstock.tune.model.prediction import predict as predict
from penstock.tune.model.simulate import NetRun as NetRun
from penstock.tune.model.simulate import simulate as simulate
