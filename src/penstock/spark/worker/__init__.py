"""What runs in a task of Spark: one stage of a graph, on a split or on the blocks of a bucket."""
