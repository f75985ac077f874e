"""Tune a run before it is paid for: measure nodes, predict runs with the performance model, advise, scale to clusters.

`import penstock` does not import this part. It reads plans and records, and runs streams only through `engine.run.Run`
and Spark's driver.
"""
