"""What users of PySpark, pandas and Polars try first, and our word for it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

METHODS = {
    "groupBy": "key_by(...) with aggregate(...), a state or a window",
    "groupby": "key_by(...) with aggregate(...), a state or a window",
    "group_by": "key_by(...) with aggregate(...), a state or a window",
    "keyBy": "key_by(...)",
    "reduceByKey": "key_by(...) with aggregate(...)",
    "withColumn": "map(field=function)",
    "withColumns": "map(field=function)",
    "with_columns": "map(field=function)",
    "assign": "map(field=function)",
    "apply": "map(field=function), or map_columns(...) for whole columns",
    "mapInArrow": "map_columns(...) for what depends on one row; a state or a region for anything else",
    "mapInPandas": "map_columns(...) for what depends on one row; a state or a region for anything else",
    "mapPartitions": "map_columns(...) for what depends on one row; a state or a region for anything else",
    "applyInPandas": "a ps.Fold or a ps.Operator on a region, or flat_map(...) with a state by key",
    "withColumnRenamed": "rename(new='old')",
    "where": "filter(function)",
    "query": "filter(function)",
    "selectExpr": "map(field=function) and select(...)",
    "flatMap": "flat_map(function, to=..., at_most=...)",
    "explode": "enumerate(field, as_=...)",
    "posexplode": "enumerate(field, as_=..., index=...)",
    "agg": "aggregate(name=ps.sum(...), ...)",
    "reduce": "aggregate(name=...) with a ps.Fold",
    "count": "aggregate(n=ps.count())",
    "sum": "aggregate(total=ps.sum(field))",
    "mean": "aggregate(mean=ps.mean(field))",
    "min": "aggregate(least=ps.min(field))",
    "max": "aggregate(most=ps.max(field))",
    "distinct": "key_by(...).aggregate(n=ps.count()), which has a row for each key",
    "dropDuplicates": "key_by(...).aggregate(...), which has a row for each key, or a filter with a state by key",
    "drop_duplicates": "key_by(...).aggregate(...), which has a row for each key, or a filter with a state by key",
    "dropna": "drop_nulls(...), right after the source",
    "fillna": "fill_null(field=value), right after the source",
    "na": "drop_nulls(...) and fill_null(...), right after the source",
    "union": "ps.merge(...) of branches of one stream; read several files as one source",
    "unionAll": "ps.merge(...) of branches of one stream; read several files as one source",
    "unionByName": "ps.merge(...) of branches of one stream; read several files as one source",
    "concat": "ps.merge(...) of branches of one stream; read several files as one source",
    "join": "ps.align(...) for branches of one stream, by index; to join by key, join the DataFrames before from_spark",
    "zip": "ps.align(...) for branches of one stream, by index",
    "merge": "ps.merge(...) of branches of one stream",
    "orderBy": "an order of the source: from_spark(frame, order_by=...); a stream keeps it",
    "sort": "an order of the source: from_spark(frame, order_by=...); a stream keeps it",
    "sort_values": "an order of the source: from_spark(frame, order_by=...); a stream keeps it",
    "toPandas": "to_pandas()",
    "toArrow": "collect(), which gives an Arrow table",
    "to_arrow": "collect(), which gives an Arrow table",
    "toDF": "to_spark()",
    "toLocalIterator": "batches()",
    "iterrows": "batches()",
    "take": "head(n), or limit(n) for a step",
    "first": "head(1)",
    "tail": "collect(), of which the last rows are those of the stream",
    "foreachBatch": "start(function, checkpoint=...)",
    "writeStream": "start(sink, checkpoint=...)",
    "write": "write_parquet(...), write_csv(...) or write_json(...)",
    "to_parquet": "write_parquet(...)",
    "to_csv": "write_csv(...)",
    "columns": "schema.names",
    "dtypes": "schema",
    "printSchema": "schema",
    "withWatermark": "window(field, length=..., late=...)",
    "over": "key_by(...) with a state",
    "repartition": "it is spread by splits of the source and by key; see split_bytes= and buckets=",
    "coalesce": "it is spread by splits of the source and by key; see split_bytes= and buckets=",
    "cache": "no need for it: write the result, and read it; or name several results in one ps.run(...)",
    "persist": "no need for it: write the result, and read it; or name several results in one ps.run(...)",
    "through": "process(operator, to=..., at_most=...)",
    "flexible": "named('name'), and run with flexible={'name': copies}",
    "on_core": "named('name'), and run with mapping={'name': core}",
    "profile": "penstock.tune.profile(stream)",
    "model": "penstock.tune.predict(stream, profile)",
    "advise": "penstock.tune.advise(stream, cores)",
    "scale": "penstock.tune.scale(stream, executors)",
}
"""Methods of others, by what takes their place on a stream."""

FUNCTIONS = {
    "col": "the parameters of a function: filter(lambda value: value > 0)",
    "lit": "a constant in a function: map(one=lambda: 1)",
    "expr": "a function: map(twice=lambda value: 2 * value)",
    "when": "an if in a function",
    "udf": "any function: it is compiled with the loop around it",
    "pandas_udf": "map_columns(function, to=...)",
    "avg": "ps.mean(field)",
    "stddev": "ps.variance(field)",
    "collect_list": "ps.to_list(field)",
    "collect": "ps.to_list(field) as an aggregate; collect() of a stream runs it",
    "join": "ps.align(...) for branches of one stream, by index; to join by key, join the DataFrames before from_spark",
    "union": "ps.merge(...) of branches of one stream",
    "concat": "ps.merge(...) of branches of one stream",
    "Node": "ps.Operator",
    "DataFrame": "ps.from_pandas(...), ps.from_spark(...) or ps.from_arrow(...)",
    "read": "ps.read_parquet(...), ps.read_csv(...), ps.read_json(...) or ps.read_text(...)",
    "tune": "import penstock.tune, which is imported only when asked for",
    "spark": "import penstock.spark, which is imported only when asked for",
}
"""The same for the functions of a module."""


_SENTENCES = ("it is", "no need", "import")


def hint(name: str, words: dict[str, str], own: Iterable[str]) -> str:
    """What to write for a name that is not there: our word for it, or the nearest of our own."""
    if name in words:
        return f"; {'' if words[name].startswith(_SENTENCES) else 'write '}{words[name]}"
    close = get_close_matches(name, [each for each in own if not each.startswith("_")], 1)
    return f"; did you mean {close[0]!r}?" if close else ""
