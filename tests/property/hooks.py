"""The classes of the random graphs that hold hooks: operators for `process`, folds for `aggregate`."""

from __future__ import annotations

from tests.property.library import Template


def _node(name: str, takes: str, gives: str, body: str) -> Template:
    return _class("Operator", name, takes, gives, body)


def _fold(name: str, takes: str, gives: str, body: str) -> Template:
    return _class("Fold", name, takes, gives, body)


def _class(base: str, name: str, takes: str, gives: str, body: str) -> Template:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    text = f"class {{name}}(ps.{base}):\n{lines}\n"
    return Template(name, tuple(takes.split()), tuple(gives.split()), text, is_slow="->" in text)


NODES = (
    _node("Passing", "i", "i", """
n: int
def run(self, {a}):
    self.n += 1
    yield {a} % 97 + self.n
"""),
    _node("Ending", "i", "i", """
n: int
sum: int = 3
def run(self, {a}):
    self.n += 1
    self.sum = (self.sum * 31 + {a} % 97) % 1000003
    if self.n % 2 == 0:
        yield self.sum
def end(self):
    yield -self.n
    yield self.sum
"""),
    _node("Around", "f", "f i", """
n: int
last: float
def begin(self):
    self.last = -1.0
    yield 0.0, -1
def run(self, {a}):
    if {a} > self.last:
        yield {a}, self.n
    self.last = {a}
    self.n += 1
def end(self):
    yield self.last, self.n
"""),
    _node("Parent", "^i i", "i", """
base: int
seen: ps.array(int, 2)
def begin(self, {a}):
    self.base = {a} % 50
def run(self, {b}):
    self.seen[{b} % 2] += 1
def end(self, {a}):
    yield self.base * 100 + self.seen[0] * 10 + self.seen[1]
    if {a} % 2 == 0:
        yield 5
"""),
    _node("ParentText", "^s|x i", "i", """
def begin(self, {a}):
    yield len({a})
def run(self, {a}, {b}):
    yield len({a}) + {b} % 10
"""),
    _node("Saying", "i", "s", """
n: int
def begin(self) -> Iterator[str]:
    yield "begin"
def run(self, {a}) -> Iterator[str]:
    self.n += len(format({a}, "b"))
    yield format({a} % 9, "b")
def end(self) -> Iterator[str]:
    yield format(self.n, "d")
"""),
    _node("Pieces", "x", "x", """
n: int
def run(self, {a}):
    self.n += len({a})
    if len({a}) > 0:
        yield {a}[:2]
        yield {a}[1:]
"""),
    _node("Texts", "s", "x", """
n: int
def run(self, {a}):
    self.n += len({a})
    if len({a}) > 0:
        yield {a}.encode()[:2]
        yield {a}.encode()[1:]
"""),
)  # fmt: skip
"""No hook pushes more than two items at a time."""

FOLDS = (
    _fold("Order", "i", "i", """
sum: int = 1
def run(self, {a}):
    self.sum = (self.sum * 31 + {a} % 97) % 1000003
def end(self):
    return self.sum
"""),
    _fold("Spread", "f", "f", """
low: float = float("inf")
high: float = float("-inf")
def begin(self):
    self.high = -1e300
def run(self, {a}):
    if {a} < self.low:
        self.low = {a}
    if {a} > self.high:
        self.high = {a}
def end(self):
    return self.high - self.low
"""),
    _fold("Based", "^i i", "i", """
base: int
def begin(self, {a}):
    self.base = {a} % 100
def run(self, {b}, {a}):
    self.base = (self.base * 7 + {b} % 97 + {a} % 3) % 1000003
def end(self, {a}):
    return self.base + {a} % 10
"""),
    _fold("Histogram", "i", "l", """
bins: ps.array(int, 3)
def run(self, {a}):
    self.bins[{a} % 3] += 1
def end(self):
    return self.bins
"""),
    _fold("Bytes", "x", "i", """
sum: int = 1
def run(self, {a}):
    for x in {a}:
        self.sum = (self.sum * 31 + x) % 1000003
def end(self):
    return self.sum
"""),
    _fold("Letters", "s", "i", """
sum: int = 1
def run(self, {a}):
    for x in {a}.encode():
        self.sum = (self.sum * 31 + x) % 1000003
def end(self):
    return self.sum
"""),
    _fold("Any", "b", "b", """
any: bool
def run(self, {a}):
    self.any = self.any or {a}
def end(self):
    return self.any
"""),
    _fold("Told", "i", "s", """
n: int
def run(self, {a}):
    self.n += len(format({a}, "b"))
def end(self) -> str:
    return format(self.n, "b")
"""),
)  # fmt: skip
