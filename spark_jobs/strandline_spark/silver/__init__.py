"""Silver: values parsed into typed columns, and a quarantine table for the other records."""
