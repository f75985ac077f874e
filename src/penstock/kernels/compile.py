"""The one wrapper around Numba: what a function returns, its compiled form, and generated loops kept on disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import json
import os
import platform
import re
import sys
import tempfile
import types as python_types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import types

from penstock.kernels.checked import CheckedCompiler
from penstock.kernels.fingerprint import fingerprint, is_library, names_used
from penstock.kernels.record import reference_to


@dataclass(frozen=True, slots=True)
class View:
    """What compiled code sees of a value: a scalar or record of `dtype`, or a one-dimensional array of it."""

    dtype: np.dtype
    array: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What compiling a function on given views told: its result, or the reason why there is none."""

    returns: tuple[View, ...] = ()
    is_tuple: bool = False
    may_raise: bool = True
    reason: str | None = None


class NotCompiled(Exception):
    """The function has no compiled form; the text says why."""


_jitted: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def jit(function: Any) -> Any:
    """The compiled form of a user's function: integers checked, indices checked, plain callees compiled too."""
    function = getattr(function, "py_func", function)
    if function not in _jitted:
        _jitted[function] = made = numba.njit(
            _rebound(function), pipeline_class=CheckedCompiler, boundscheck=True, error_model="python"
        )
        # The rebound copy must look the dispatcher up under the function's own name when it calls itself.
        made.py_func.__globals__.setdefault(function.__name__, made)
    return _jitted[function]


def _rebound(function: python_types.FunctionType) -> python_types.FunctionType:
    """A copy of the function in whose globals and closure plain functions are compiled ones."""

    def lifted(value: Any) -> Any:
        plain = isinstance(value, python_types.FunctionType) and value is not function and not is_library(value)
        return jit(value) if plain else value

    scope = {
        name: lifted(function.__globals__[name])
        for name in names_used(function.__code__)
        if name in function.__globals__ and function.__globals__[name] is not function
    }
    # Code from the cache asks for the module of each function in it, so that must be one which every process has.
    scope |= {"__builtins__": function.__globals__.get("__builtins__", __builtins__), "__name__": __name__}
    closure = None
    if function.__closure__:
        closure = tuple(python_types.CellType(lifted(cell.cell_contents)) for cell in function.__closure__)
    return python_types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, closure)


def facts(function: Any, views: tuple[View, ...]) -> Facts:
    """Compile the function for these views, or read from the cache what an earlier process learned by that."""
    function = getattr(function, "py_func", function)
    identity = fingerprint(function, [(view.dtype, view.array) for view in views], _versions())
    if identity is None:
        return _learn(function, views)
    kept = cache_folder() / "facts" / f"{identity[:40]}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return _read_facts(kept.read_text())
    found = _learn(function, views)
    _write_once(kept, _facts_text(found))
    return found


def _facts_text(found: Facts) -> str:
    returns = [[view.dtype.str, view.array] for view in found.returns]
    return json.dumps([returns, found.is_tuple, found.may_raise, found.reason])


def _read_facts(text: str) -> Facts:
    returns, is_tuple, may_raise, reason = json.loads(text)
    return Facts(tuple(View(np.dtype(dtype), array) for dtype, array in returns), is_tuple, may_raise, reason)


def _learn(function: Any, views: tuple[View, ...]) -> Facts:
    signature = tuple(_numba_type(view, inspect.isgeneratorfunction(function)) for view in views)
    defaults = (getattr(function, "__defaults__", None) or ())[len(signature) - function.__code__.co_argcount :]
    signature += tuple(types.Omitted(default) for default in defaults if len(signature) < function.__code__.co_argcount)
    try:
        compiled = jit(function)
        compiled.compile(signature)
        result = compiled.overloads[signature]
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
    t = numba.from_dtype(view.dtype)
    if in_generator and isinstance(t, types.Record):
        return reference_to(t)
    return types.Array(t, 1, "C", readonly=True) if view.array else t


def _view_of(t: Any) -> View:
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
    """The telling lines of Numba's long message."""
    noise = (
        "During:",
        "Failed in",
        "File ",
        "This is not usually",
        "For more",
        "There are",
        "Enable logging",
        "In definition",
    )
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]
    telling = [line for line in lines if line and not line.startswith(noise) and not set(line) <= set("-^<>. =")]
    return "; ".join(telling[:2])[:300] or "Numba gave no reason"


# Generated loops


def cache_folder() -> Path:
    """Where compiled code is kept: PENSTOCK_CACHE_DIR, or the user's cache folder, or a temporary one."""
    chosen = os.environ.get("PENSTOCK_CACHE_DIR")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "penstock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"


@functools.cache
def _versions() -> str:
    """All that a compiled loop depends on beside its source: the compilers, the processor and our own kernels."""
    own = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        own.update(path.read_bytes())
    return f"{platform.python_version()} {numba.__version__} {llvmlite.__version__} {np.__version__} {own.hexdigest()}"


def _write_once(path: Path, text: str) -> bool:
    """Write a file whole or not at all, and never over one that is there; False where nothing may be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as draft:
            draft.write(text)
        try:
            os.link(draft.name, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(draft.name)
    except OSError:
        return path.exists()
    return True


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
        return numba.njit(interpret(source, scope), nogil=True)  # type: ignore[no-any-return]
    name = hashlib.sha256(f"{identity}\n{_versions()}\n{source}".encode()).hexdigest()[:40]
    if name not in _loaded:
        _loaded[name] = _load(source, scope, f"penstock_loop_{name}")
    return _loaded[name]


_loaded: dict[str, Callable[..., Any]] = {}


def _load(source: str, scope: dict[str, Any], name: str) -> Callable[..., Any]:
    path = cache_folder() / "loops" / f"{name}.py"
    if not _write_once(path, source):
        return numba.njit(interpret(source, scope), nogil=True)  # type: ignore[no-any-return]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    module.__dict__.update(scope)
    spec.loader.exec_module(module)
    return numba.njit(module.kernel, nogil=True, cache=True)  # type: ignore[no-any-return]
