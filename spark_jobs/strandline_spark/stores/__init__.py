"""The places of tables: folders of this machine, and prefixes of an object store (`s3://`)."""
