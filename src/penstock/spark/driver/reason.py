"""Why Spark could not run a job, in one line: what it says is pages of traces, of which a user needs one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from penstock.errors import GraphError, JobError, PenstockError
from penstock.graph import nodes as n
from penstock.spark.worker.task_failure import error_in

_TOO_LARGE = re.compile(r"Total size of serialized results of \d+ tasks \((.+?)\) is bigger than \S+ \((.+?)\)")
_NO_MODULE = re.compile(r"No module named '([^']+)'")
_DIED = re.compile(r"Python worker (?:exited unexpectedly|process terminated)|SystemExit")
_SLOW = re.compile(r"Python worker failed to connect back|waiting for the Python worker to connect")
_EXECUTOR = re.compile(
    r"ExecutorLostFailure|Lost executor|FetchFailed|executor .* lost|with indeterminate output was failed and retried",
    re.IGNORECASE,
)
_JAVA = re.compile(
    r"Answer from Java side is empty|Error while (?:sending|receiving)|trying to connect to the Java server"
    r"|SparkContext was shut down|Cannot call methods on a stopped SparkContext|Connection (?:refused|reset)"
)
_UNANSWERED = re.compile(r"An error occurred while calling \S+")
"""The whole message of a call that Py4J could not finish. Where Java has answered, its trace follows."""
LOST = re.compile(r"^job: (?:a Python worker|the executors|the Java process)")
"""How messages begin that tell of something lost that a job needs, and that the next one may have."""
_ABOUT_CALLS = re.compile(r"^An error occurred while calling|Exception thrown in awaitResult|^at |^\.\.\. \d+ more")
"""Lines that tell what was called and who waited for it. What went wrong is on another one."""
_FAILURE = re.compile(r"most recent failure: (?:Lost task [^:]*: )?(.+)")


def job_error(error: Exception, nodes: Iterable[n.GraphNode] = ()) -> PenstockError:
    """The error to raise instead of Spark's. `nodes` are those of the graph, to name the one that is concerned."""
    if isinstance(error, PenstockError):
        return error
    if is_lost(error):
        return lost_java()
    text = str(error)
    failed = error_in(text)
    if failed is not None:
        return failed
    for pattern, told in _KNOWN:
        found = pattern.search(text)
        if found is not None:
            return JobError(told(found, nodes))
    return JobError(f"job: Spark could not run it: {_best_line(text) or type(error).__name__}")


def _too_large(found: re.Match[str], nodes: Iterable[n.GraphNode]) -> str:
    return (
        f"collect: the result must fit into spark.driver.maxResultSize, {found[2]}; it has {found[1]} or more; write "
        f"it to files (write_parquet), or set spark.driver.maxResultSize higher when the session is made"
    )


def _no_module(found: re.Match[str], nodes: Iterable[n.GraphNode]) -> str:
    module = found[1]
    from_it = (f"{function.where}: " for node in nodes for function in node.functions if _is_from(function, module))
    return (
        f"{next(from_it, 'job: ')}the workers must have the module {module!r}; they have not; install it where they "
        f"run, or send it to them with spark.sparkContext.addPyFile"
    )


def _is_from(function: Any, module: str) -> bool:
    call = getattr(function.call, "py_func", function.call)
    return f"{getattr(call, '__module__', '')}.".startswith(f"{module}.")


def _worker_died(found: re.Match[str], nodes: Iterable[n.GraphNode]) -> str:
    return (
        "job: a Python worker must live until its task is done; it died; does a function end the process, or is there "
        "too little memory?"
    )


def _worker_slow(found: re.Match[str], nodes: Iterable[n.GraphNode]) -> str:
    return (
        "job: a Python worker must start within the ten seconds that Spark waits for it; it did not; run it again; is "
        "the machine overloaded?"
    )


def _executor(found: re.Match[str], nodes: Iterable[n.GraphNode]) -> str:
    return (
        "job: the executors must live until their tasks are done; Spark lost them too often and gave up; run it again; "
        "are workers killed, or is there too little memory (spark.executor.memory)?"
    )


def is_lost(error: BaseException) -> bool:
    """Whether an error says that the JVM is not there any more, and nothing else."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "Py4JJavaError" in kinds or "PySparkException" in kinds:
        return False  # it is there, and has answered
    if "Py4JNetworkError" in kinds:
        return True
    if "Py4JError" in kinds and _UNANSWERED.fullmatch(str(error).strip()):
        return True
    return ("Py4JError" in kinds or isinstance(error, OSError)) and _JAVA.search(str(error)) is not None


def lost_java() -> JobError:
    """The error to raise when the JVM is gone."""
    return JobError(
        "job: the Java process of Spark must live while it is used; it ended; start again: a new session starts a new "
        "one; was it killed, or was there too little memory (session(memory=...))?"
    )


_KNOWN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Iterable[n.GraphNode]], str]], ...] = (
    (_TOO_LARGE, _too_large),
    (_NO_MODULE, _no_module),
    (_DIED, _worker_died),
    (_SLOW, _worker_slow),
    (_EXECUTOR, _executor),
    (_JAVA, lambda found, nodes: str(lost_java())),
)


def _best_line(text: str) -> str:
    """The line of Spark's words that says most: the error of a task, else a Python error, else the first."""
    lines = [line.strip().removeprefix(": ").removeprefix("Caused by: ") for line in text.splitlines()]
    lines = [line for line in lines if line and not _ABOUT_CALLS.search(line)]
    raised = [line for line in lines if line.partition(":")[0].replace(".", "").isidentifier() and "Error" in line]
    failure = _FAILURE.search(text)
    if raised:
        return raised[-1]
    return failure[1] if failure else (lines or [""])[0]


def refuse_unpackable(nodes: Iterable[n.GraphNode], error: Exception, dumps: Callable[[Any], bytes]) -> None:
    """Raise for a graph that could not be packed for its way to the tasks, naming the function that holds it up."""
    for node in nodes:
        for function in node.functions:
            try:
                dumps(function)
            except Exception as reason:
                raise GraphError(
                    f"{function.where}: a function must be able to travel to the tasks; {_said(reason)}; make what it "
                    f"uses inside of it; at {function.location}"
                ) from None
    raise GraphError(f"job: a graph must be able to travel to the tasks; {_said(error)}") from None


def _said(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
