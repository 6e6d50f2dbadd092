"""`strandline-spark report`: what tables and their audits say of a pipeline, as one HTML page."""
