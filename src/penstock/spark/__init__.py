"""Running graphs on Spark: it spreads, shuffles and retries the work, and each task runs the engine."""

from penstock.spark.driver.session import session
from penstock.spark.driver.spark_settings import QUICK_START

__all__ = ["QUICK_START", "session"]
