"""Silver: values parsed into typed columns, and beside it quarantine, for what does not parse."""
