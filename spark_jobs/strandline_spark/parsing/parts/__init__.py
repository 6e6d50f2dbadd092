"""Parts of a record and of its value: key and headers, paths into values, nested types."""
