"""A probe that the Python of Spark's workers runs, as `python -c SOURCE FOLDER`. It reports its
version and packages, and checks that it can write to the folder, if that is of a file system.

The probe needs no installed package and uses only what any Python 3 reads, because it has to detect
what is missing. `workers` reads the line of JSON that it prints.
"""

if __name__ == "__main__":
    import json
    import os
    import sys
    import uuid

    name = uuid.uuid4().hex
    is_remote = "://" in sys.argv[1]
    extras = ("objects",) if is_remote else ()
    found = {
        "python": ".".join(map(str, sys.version_info[:2])),
        "executable": sys.executable,
        "package": None,
        "missing": None,
        "file": name,
        "unwritable": None,
    }
    try:
        from importlib import metadata

        import strandline_spark  # noqa: F401 - does it load?
        from strandline_runtime.extras import what_is_missing

        found["package"] = metadata.version("strandline")
        found["missing"] = what_is_missing("spark", *extras)
    except (ImportError, SyntaxError) as why:
        found["missing"] = str(why)
    try:
        if not is_remote:
            with open(os.path.join(sys.argv[1], name), "x"):
                pass
    except OSError as why:
        found["unwritable"] = why.strerror
    print(json.dumps(found))  # noqa: T201 - the answer
