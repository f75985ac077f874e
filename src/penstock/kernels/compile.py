"""The one wrapper around Numba: what a function returns, its compiled form, and generated loops kept on disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import json
import platform
import re
import sys
import types as python_types
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import numba
import numpy as np
from numba.core import types
from numba.core.errors import NumbaTypeSafetyWarning

from penstock.kernels.cache import cache
from penstock.kernels.checked import CheckedCompiler
from penstock.kernels.fingerprint import fingerprint, globals_read, is_library, why_unknown
from penstock.kernels.record_reference import reference_to
from penstock.kernels.text_types import BYTES, TEXT, Bytes, Text


@dataclass(frozen=True, slots=True)
class View:
    """What compiled code sees of a value: a scalar or record of `dtype`, or a one-dimensional array of it.

    `text` is "str" or "bytes" for an array of bytes that stands for one of these.
    """

    dtype: np.dtype
    array: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What compiling a function on given views told: its result, or the reason why there is none."""

    returns: tuple[View, ...] = ()
    is_tuple: bool = False
    may_raise: bool = True
    reason: str | None = None


class NotCompiled(Exception):
    """The function has no compiled form; the text says why."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A function with all that it captures as it was at one moment: to identify, to interpret and to compile.

    Invariant: what `identity` covers is what `plain` and `compiled` use, whatever becomes of the globals later.
    """

    identity: str | None
    plain: python_types.FunctionType
    compiled: Any
    reason: str | None = None

    @property
    def why_not_kept(self) -> str | None:
        """Why code compiled from this is not kept for the next run, or None where it is."""
        return why_unknown(self.plain) if self.identity is None else None


_snapshots: weakref.WeakKeyDictionary[Any, dict[str, Snapshot]] = weakref.WeakKeyDictionary()


def snapshot(function: Any) -> Snapshot:
    """Take a function as it is now. The same function with the same captured values gives the same snapshot."""
    function = getattr(function, "py_func", function)
    identity = fingerprint(function)
    known = _snapshots.setdefault(function, {})
    if identity is None:
        return _take_snapshot(function, None)
    if identity not in known:
        known[identity] = _take_snapshot(function, identity)
    return known[identity]


_being_taken: list[python_types.FunctionType] = []


def _take_snapshot(function: python_types.FunctionType, identity: str | None) -> Snapshot:
    """A new snapshot. One with a reason has no compiled form, and then no frozen plain one either."""
    _being_taken.append(function)
    try:
        return _frozen(function, identity)
    except NotCompiled as error:
        return Snapshot(identity, function, None, str(error))
    finally:
        _being_taken.pop()


def _frozen(function: python_types.FunctionType, identity: str | None) -> Snapshot:
    plain = _copy_function(function, _keep, function.__module__ or __name__)
    # Code from the cache asks for the module of each function in it, so that must be one which every process has.
    rebound = _copy_function(function, _lift, __name__)
    # Numba names the symbols of machine code by this, and a number that begins anew in each process. Where code from
    # the cache is linked with other code, two functions of one name and number would be taken for each other.
    rebound.__qualname__ = f"{function.__qualname__}_{(identity or uuid4().hex)[:32]}"
    compiled = numba.njit(rebound, pipeline_class=CheckedCompiler, boundscheck=True, error_model="python")
    # A function that calls itself must find its own compiled form under its name.
    plain.__globals__.setdefault(function.__name__, plain)
    rebound.__globals__.setdefault(function.__name__, compiled)
    return Snapshot(identity, plain, compiled)


def _keep(value: Any) -> Any:
    """A captured value as the plain copy keeps it: an array as it is now."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _lift(value: Any) -> Any:
    """A captured value as compiled code can use it: plain functions are compiled too."""
    if not isinstance(value, python_types.FunctionType) or is_library(value):
        return value
    if value in _being_taken:
        raise NotCompiled("functions that call each other, or themselves through a closure, are not compiled")
    taken = snapshot(value)
    if taken.reason is not None:
        raise NotCompiled(taken.reason)
    return taken.compiled


def _copy_function(
    function: python_types.FunctionType, lift: Callable[[Any], Any], module: str
) -> python_types.FunctionType:
    """A copy with the globals and closure of this moment, each value passed through `lift`."""
    scope = {
        name: lift(function.__globals__[name])
        for name in globals_read(function.__code__)
        if name in function.__globals__ and function.__globals__[name] is not function
    }
    scope |= {"__builtins__": function.__globals__.get("__builtins__", __builtins__), "__name__": module}
    closure = None
    if function.__closure__:
        try:
            closure = tuple(python_types.CellType(lift(cell.cell_contents)) for cell in function.__closure__)
        except ValueError:
            raise NotCompiled("it captures a variable that has no value yet") from None
    made = python_types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def facts(taken: Snapshot, views: tuple[View, ...]) -> Facts:
    """Compile the function for these views, or read from the cache what an earlier process learned by that."""
    if taken.reason is not None:
        return Facts(reason=taken.reason)
    if taken.identity is None:
        return _learn(taken, views)
    identity = fingerprint(taken.identity, [(view.dtype, view.array, view.text) for view in views], versions())
    kept, name = cache(), f"facts/{str(identity)[:40]}.json"
    text = kept.read(name) if kept is not None else _facts_here.get(name)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return _read_facts(text or "")
    if name in _refused:
        return _refused[name]
    found = _learn(taken, views)
    if found.reason is not None:  # what fails for want of memory today may compile tomorrow
        _refused[name] = found
    elif kept is None:
        _facts_here[name] = _facts_text(found)
    else:
        kept.write(name, _facts_text(found))
    return found


_refused: dict[str, Facts] = {}
"""What did not compile in this process, so that it is not tried again."""

_facts_here: dict[str, str] = {}
"""The same in the memory of this process, where no folder is safe to keep them in."""


def _facts_text(facts: Facts) -> str:
    returns = [[view.dtype.str, view.array, view.text] for view in facts.returns]
    return json.dumps([returns, facts.is_tuple, facts.may_raise, facts.reason])


def _read_facts(text: str) -> Facts:
    returns, is_tuple, may_raise, reason = json.loads(text)
    return Facts(tuple(View(np.dtype(dtype), *rest) for dtype, *rest in returns), is_tuple, may_raise, reason)


def _learn(taken: Snapshot, views: tuple[View, ...]) -> Facts:
    function = taken.plain
    signature = tuple(_numba_type(view, inspect.isgeneratorfunction(function)) for view in views)
    missing = function.__code__.co_argcount - len(signature)
    signature += tuple(types.Omitted(default) for default in (function.__defaults__ or ())[-missing:] if missing > 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumbaTypeSafetyWarning)  # of code that is refused then
            taken.compiled.compile(signature)
        result = taken.compiled.overloads[signature]
        is_generator = isinstance(result.signature.return_type, types.Generator)
        returned = result.signature.return_type.yield_type if is_generator else result.signature.return_type
        is_tuple = isinstance(returned, types.BaseTuple)
        views = tuple(_view_of(t) for t in (returned.types if is_tuple else (returned,)) if t != types.none)
    except NotCompiled as error:
        return Facts(reason=str(error))
    except Exception as error:  # Numba raises many kinds, and none of them may stop a function from being interpreted
        return Facts(reason=_short_reason(str(error)))
    return Facts(views, is_tuple, is_generator or _may_raise(result))


def _numba_type(view: View, in_generator: bool) -> Any:
    if view.text:
        return TEXT if view.text == "str" else BYTES
    t = numba.from_dtype(view.dtype)
    if in_generator and isinstance(t, types.Record):
        return reference_to(t)
    return types.Array(t, 1, "C", readonly=True) if view.array else t


def _view_of(t: Any) -> View:
    if isinstance(t, (Text, Bytes)):
        return View(np.dtype("u1"), array=True, text="str" if isinstance(t, Text) else "bytes")
    if isinstance(t, types.Boolean):
        return View(np.dtype("?"))
    if isinstance(t, types.Integer) and t != types.uint64:
        return View(np.dtype("i8"))
    if isinstance(t, types.Float):
        return View(np.dtype("f8"))
    if isinstance(t, types.Array) and t.ndim == 1 and isinstance(t.dtype, (types.Integer, types.Float, types.Boolean)):
        return View(np.dtype(str(t.dtype)), array=True)
    if isinstance(t, (types.Optional, types.NoneType)):
        raise NotCompiled("it may return None; it must return a value on every path")
    if t == types.uint64:
        raise NotCompiled("it returns an unsigned 64-bit integer; wrap the result in np.int64(...)")
    raise NotCompiled(f"it returns {t}, which is no number, boolean, byte array or array of numbers")


def _may_raise(result: Any) -> bool:
    """Whether the machine code has an exit that raises: Numba's functions return 0 where all went well."""
    text = result.library.get_llvm_str()
    name = re.escape(result.fndesc.llvm_func_name)
    body = re.search(rf'define [^\n]*@"?{name}"?\(.*?\n}}', text, re.DOTALL)
    return body is None or any(code != "0" for code in re.findall(r"ret i32 (\S+)", body.group(0)))


def _short_reason(text: str) -> str:
    """The telling lines of Numba's long message, or our own reason in it."""
    if ours := re.search(r"penstock: (.*?)\.\n", f"{text}\n"):
        return ours[1]
    noise = ("During:", "Failed in", "This is not usually", "For more", "There are", "Enable logging", "In definition")
    # After the place, Numba quotes source, and for a lambda not even the right line.
    told = re.split(r'\n\s*File "', re.sub(r"\x1b\[[0-9;]*m", "", text))[0]
    told = re.sub(r"Function\(<(?:built-in )?function (\S+?)(?: at 0x[0-9a-f]+)?>\)", r"\1", told)
    lines = [line.strip() for line in told.splitlines()]
    telling = [line for line in lines if line and not line.startswith(noise) and not set(line) <= set("-^<>. =")]
    return "; ".join(telling[:2])[:300] or "Numba gave no reason"


# Generated loops


@functools.cache
def versions() -> str:
    """All that a compiled loop depends on beside its source: the compilers, the processor and our own kernels."""
    own = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        own.update(path.read_bytes())
    return f"{platform.python_version()} {numba.__version__} {llvmlite.__version__} {np.__version__} {own.hexdigest()}"


def interpret(source: str, scope: dict[str, Any]) -> Callable[..., Any]:
    """The generated loop as plain Python."""
    module = dict(scope)
    exec(compile(source, "<penstock generated loop>", "exec"), module)
    return module["kernel"]  # type: ignore[no-any-return]


def load(source: str, scope: dict[str, Any], identity: str | None) -> Callable[..., Any]:
    """The generated loop compiled; from disk where a process before this one compiled it.

    `identity` covers the functions in `scope`, and is None where they have no identity: then nothing is kept.
    """
    if identity is None:
        return _load_unknown(source, scope)
    name = hashlib.sha256(f"{identity}\n{versions()}\n{source}".encode()).hexdigest()[:40]
    if name not in _loaded:
        _loaded[name] = _load(source, scope, f"penstock_loop_{name}")
    return _loaded[name]


_loaded: dict[str, Callable[..., Any]] = {}
_reused: dict[Any, Callable[..., Any]] | None = None
"""Within `reusing`, the loops of functions without an identity. Each holds its functions, so that ids stay unique."""


@contextlib.contextmanager
def reusing() -> Iterator[None]:
    """Compile what has no identity once for all runs in here. What it captures must not change meanwhile."""
    global _reused
    before, _reused = _reused, {} if _reused is None else _reused
    try:
        yield
    finally:
        _reused = before


def _load_unknown(source: str, scope: dict[str, Any]) -> Callable[..., Any]:
    reused = {} if _reused is None else _reused
    key = source, tuple((name, _value_key(value)) for name, value in sorted(scope.items()))
    if key not in reused:
        reused[key] = numba.njit(interpret(source, scope), nogil=True)
    return reused[key]


def _value_key(value: Any) -> Any:
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else id(value)


def _load(source: str, scope: dict[str, Any], name: str) -> Callable[..., Any]:
    kept = cache()
    path = None if kept is None else kept.write(f"loops/{name}.py", source)
    if kept is None or path is None or not kept.trusts_code_of(path):
        return numba.njit(interpret(source, scope), nogil=True)  # type: ignore[no-any-return]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    module.__dict__.update(scope)
    spec.loader.exec_module(module)
    try:
        return _forgiving(numba.njit(module.kernel, nogil=True, cache=True))  # type: ignore[no-any-return]
    except RuntimeError:  # a folder that can be read and not written, so that Numba has no place for its files
        return numba.njit(module.kernel, nogil=True)  # type: ignore[no-any-return]


def _forgiving(dispatcher: Any) -> Any:
    """Let a damaged file in the cache be made anew, where Numba would stop at it."""
    cache = dispatcher._cache
    load = cache.load_overload

    def load_or_forget(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except Exception:  # whatever reading a damaged file may raise
            cache.flush()
            return None

    cache.load_overload = load_or_forget
    return dispatcher
