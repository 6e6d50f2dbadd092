"""`strandline-spark report`: a pipeline's tables and their audits as one HTML page."""
