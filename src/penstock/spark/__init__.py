"""Running graphs on Spark: it spreads, shuffles and retries the work, and each task runs the engine."""

from penstock.spark.session import session

__all__ = ["session"]
