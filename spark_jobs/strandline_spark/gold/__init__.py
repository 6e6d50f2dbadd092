"""Gold: windows over a silver table, each computed once, when the watermark has closed it."""
