"""A function means on texts, bytes and lists what it means in plain Python: compared with CPython, call by call."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.graph.function import Undeclared
from penstock.graph.values import vector

ITEMS: list[dict[str, Any]] = [
    {"user": "ada", "other": "bob", "data": b"abc", "more": b"b", "xs": [1, 2, 3], "ys": [0.5, 2.0, 9.0], "n": 1},
    {"user": "", "other": "ada", "data": b"", "more": b"", "xs": [7, 7, 0], "ys": [1.0, -1.0, 0.0], "n": 0},
    {"user": "être", "other": "être", "data": b"\xff\x00a", "more": b"abc", "xs": [1, 0, 0], "ys": [1.0, 0, 0], "n": 2},
    {"user": "👩‍🚀", "other": "", "data": b"b", "more": b"bb", "xs": [-4, 5, 2], "ys": [2.0, 2.0, 2.0], "n": -1},
    {"user": "A b", "other": "a B", "data": b"  ", "more": b" ", "xs": [3, 1, 2], "ys": [3.0, 1.0, 2.0], "n": 3},
]  # fmt: skip
NAMES = ("ada", "", "être")
KNOWN = {"ada": 1, "bob": 2}
CHOSEN = frozenset(NAMES)
SOME_BYTES = (b"abc", b"", b"b")


def first_of(value: Any) -> Any:
    return value


def is_known(value: Any) -> bool:
    return value in NAMES


def both(a: Any, b: Any) -> Any:
    return a, b


@numba.njit  # type: ignore[untyped-decorator]
def own_length(value):  # type: ignore[no-untyped-def]
    return len(value)


TABLE = """
user in ("ada", "b") | user not in ("ada", "b") | user in NAMES | user in CHOSEN | user in KNOWN | KNOWN.get(user, 0)
user == other | user != other | user < other | user <= other <= "z" | user == "ada" | "ada" == user | user == "être"
user is None | user is not None | user is (user or "x") | (user, 1) == (other, 1) | [user] == [other]
(user,) in ((other,), ("ada",)) | user in [other, "ada"] | user in {other} | {user: n}.get("ada", 9)
{user, other} == {other} | isinstance(user, str) | isinstance(user, bytes) | type(user) is str | hasattr(user, "ndim")
callable(user) | len(user) | len(str(user)) | len(f"{user}") | len(repr(user)) | len(f"{user!r:>9}")
len("%s" % user) | len("{}".format(user)) | len(user + other) | len(user * 2) | user + other | user * n | user[:2]
user[1:] | user[::-1] | user[0:1] == "a" | [c for c in user] == list(user) | len([c for c in user if c > "b"])
"-".join(user) | len(sorted(user)) | max(user, other) | min(user, other, key=len) | sorted([user, other])[0]
sum(ord(c) for c in user) | any(c == "a" for c in user) | all(user) | any(user) | len(list(user)) | len(set(user))
len(tuple(user)) | dict(enumerate(user)).get(0) == "a" | [i for i, c in enumerate(user)] == [0]
list(zip(user, other)) == [] | 1 if user else 0 | not user | bool(user) | user or "x" | user and other
(user or other) == user | (user and 1) == 1 | hash(user) == hash(str(user)) | user.upper() | user.encode()
user.encode()[1:] | len(user.encode()) | user.encode() == b"ada" | user.encode("latin1", "replace")
user.encode().decode() | sum(user.encode()) | user.startswith("a") | user.find("a") | user.isalpha() | user.count("a")
[b for b in user.encode()] == [] | user.encode()[::2] | user.encode().hex() | user | user if n > 0 else other
(user, other)[n % 2] | both(user, other)[1] | first_of(user) | first_of(user) == other | is_known(user)
is_known(other) and n > 0 | len(first_of(user)) | own_length(user.encode()) | own_length(both(user, n)[0])
(lambda t: t == other)(user) | (lambda t: t)(user) | (copy := user) == other | [t for t in (user, other)][0]
[t == "ada" for t in (user, other)] | "a" in user | "" in user | other in user | user.strip().split(" ")[0]
int("1" + str(len(user))) | float(len(user)) | str(n) + user | f"{user}{n}" | user.zfill(4) | np.array([user]).size
len(np.asarray(user).shape) | np.frombuffer(user.encode(), np.uint8) | np.frombuffer(data, np.uint8).sum()
np.frombuffer(data, np.uint8) | len(data) | data[:1] | data[1:] | data[-1:] | data[::-1]
data[0] if len(data) else -1 | data[-1] if data else -1 | data == b"abc" | data != more | data < more
data in SOME_BYTES | data in (b"a", b"abc") | data not in (b"a", b"abc") | data == more | data + more | data * 2
bytes(data) | 97 in data | more in data | sum(data) | min(data, default=0) | max(data + b"x") | sorted(data)
[b for b in data] == [97] | [i for i, b in enumerate(data) if b == 97] == [0]
len([1 for a, b in zip(data, more) if a == b]) | data.count(b"b") | 1 if data else 0 | not data | data or more
isinstance(data, bytes) | len(str(data)) | len(f"{data}") | hash(data) == hash(bytes(data)) | data is None
data if n > 0 else more | (data, more)[n % 2] | both(data, more)[0] | (data, n) == (more, n) | data.find(b"b")
data.startswith(b"a") | data[n:] | data[1:][0:1] | len(data[1:3]) | list(data) == [97, 98, 99] | tuple(data) == (98,)
len(set(data)) | xs + xs | xs * 2 | xs == ys | (xs == ys).all() | xs[0] == ys[0] | xs.sum() | sum(xs) | 7 in xs
xs < 2 | xs[1:] | len(xs) | list(xs) | max(xs) | np.sort(xs) | sorted(xs) | [x + 1 for x in xs] | len(str(xs))
len(f"{xs}") | isinstance(xs, list) | isinstance(xs, np.ndarray) | xs is None | np.dot(xs, ys) | -xs
xs.max() - xs.min()
"""
EXPRESSIONS = [cell.strip() for line in TABLE.strip().splitlines() for cell in line.split("|")]


def function_of(expression: str) -> Callable[..., Any]:
    fields = [name for name in ITEMS[0] if re.search(rf"\b{name}\b", expression)]
    made: Callable[..., Any] = eval(f"lambda {', '.join(fields)}: {expression}", globals())
    return made


def by_python(function: Callable[..., Any]) -> list[Any]:
    """What CPython gives on each item, with arrays for lists of numbers."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    seen = [
        {k: vector(v, np.asarray(v).dtype) if isinstance(v, list) else v for k, v in item.items()} for item in ITEMS
    ]
    return [plain(function(*(item[name] for name in names))) for item in seen]


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes() if value.dtype == np.uint8 else value.tolist()
    return list(value) if isinstance(value, tuple) else value.item() if isinstance(value, np.generic) else value


def by_penstock(functions: list[Callable[..., Any]], **options: Any) -> tuple[list[list[Any]], list[bool]]:
    """What the columns of a map hold, and which of the functions were compiled: those in one loop."""
    items = ps.from_items(ITEMS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.InterpretedWarning)
        alone = [_compiles(items.map(r=function)) for function in functions]
        groups = [{f"r{i}": f for i, f in enumerate(functions) if alone[i] is kind} for kind in (True, False)]
        columns: dict[str, Any] = {}
        for group in filter(None, groups):
            table = items.map(**group).select(*group).collect(spark=False, **options)
            columns |= {name: table[name].to_pylist() for name in group}
    return [columns[f"r{i}"] for i in range(len(functions))], alone


def _compiles(stream: ps.Stream) -> bool:
    """Whether the function of a map compiles. One that does not has no type yet, unless it is declared."""
    try:
        return stream.node.functions[0].reason is None
    except Undeclared:
        return False


def differences(expressions: list[str]) -> tuple[list[Any], list[bool]]:
    """The expressions with another value, or a value of another type, than in CPython; and which were compiled."""
    functions = [function_of(expression) for expression in expressions]
    expected = [by_python(function) for function in functions]
    answers, compiled = by_penstock(functions)
    rows = zip(expressions, answers, expected, strict=True)
    return [row for row in rows if row[1] != row[2] or [*map(type, row[1])] != [*map(type, row[2])]], compiled


def test_expressions_mean_what_they_mean_in_cpython() -> None:
    wrong, compiled = differences(EXPRESSIONS[::3])
    assert wrong == []
    assert len(compiled) >= 60 and sum(compiled) >= 15


@pytest.mark.long
def test_all_expressions_mean_what_they_mean_in_cpython() -> None:
    wrong, compiled = differences(EXPRESSIONS)
    assert wrong == []
    assert len(compiled) >= 190 and sum(compiled) >= 50


LIES = ("user in ('a', 'b')", "user not in ('a', 'b')", "user == other", "len(str(user))", "len(f'{user}')")
LIES += ("isinstance(user, str)", "is_known(user)", "[user][0] == other", "(user, n) == (other, n)", "data == more")


@pytest.mark.parametrize("expression", LIES)
def test_a_text_where_compiled_code_would_lie_is_interpreted_with_a_warning(expression: str) -> None:
    with pytest.warns(
        ps.InterpretedWarning, match=r"runs interpreted.*the reason: .*; to compile it, .*(encode|bytes)"
    ):
        stream = ps.from_items(ITEMS).map(r=function_of(expression))
    assert stream.collect(spark=False)["r"].to_pylist() == by_python(function_of(expression))


TEXTS = st.sampled_from(["user", "other", "first_of(user)", "'ada'", "''", "both(user, other)[1]"])
BYTES = st.sampled_from(["data", "more", "user.encode()", "b'abc'", "first_of(data)"])
TEXTS = st.recursive(
    TEXTS,
    lambda t: st.one_of(
        st.tuples(t, t).map(lambda p: f"({p[0]} + {p[1]})"),
        st.tuples(t, t).map(lambda p: f"({p[0]} if n > 0 else {p[1]})"),
        st.tuples(t, t).map(lambda p: f"({p[0]} or {p[1]})"),
        st.tuples(t, t).map(lambda p: f"({p[0]}, {p[1]})[n % 2]"),
        t.map(lambda a: f"{a}[1:]"),
    ),
    max_leaves=3,
)
BYTES = st.recursive(
    BYTES,
    lambda b: st.one_of(
        b.map(lambda a: f"{a}[1:]"),
        b.map(lambda a: f"{a}[::-1]"),
        st.tuples(b, b).map(lambda p: f"({p[0]} if n > 0 else {p[1]})"),
        st.tuples(b, b).map(lambda p: f"({p[0]} + {p[1]})"),
    ),
    max_leaves=3,
)
SIGNS = st.sampled_from(["==", "!=", "<", ">=", "in", "not in"])
ASKED = st.one_of(
    TEXTS,
    BYTES,
    st.one_of(TEXTS, BYTES).map(lambda v: f"len({v})"),
    BYTES.map(lambda v: f"sum({v})"),
    BYTES.map(lambda v: f"({v}[0] if len({v}) > 0 else -1)"),
    TEXTS.map(lambda v: f"len({v}.encode())"),
    TEXTS.map(lambda v: f"(1 if {v} else 0)"),
    st.tuples(TEXTS, SIGNS, TEXTS).map(" ".join),
    st.tuples(BYTES, SIGNS, BYTES).map(" ".join),
    st.tuples(TEXTS, TEXTS, TEXTS).map(lambda p: f"{p[0]} in ({p[1]}, {p[2]})"),
)


AT_RANDOM = given(st.lists(ASKED.filter(lambda e: re.search("user|other|data|more", e)), min_size=10, max_size=10))
SLOW = list(HealthCheck)


@settings(max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)
@AT_RANDOM
def test_random_expressions_mean_what_they_mean_in_cpython(expressions: list[str]) -> None:
    assert differences(expressions)[0] == []


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@AT_RANDOM
def test_many_random_expressions_mean_what_they_mean_in_cpython(expressions: list[str]) -> None:
    assert differences(expressions)[0] == []
