"""Sources of files: which files a path means, how they are cut into splits, and how a split is read."""
