"""Files of sources and results: formats, parts, folders, and the commit that is all or nothing."""
