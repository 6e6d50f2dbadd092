"""A cluster of real server processes on this machine.

`strandline up` and `strandline.testing` start their clusters with this package.
"""
