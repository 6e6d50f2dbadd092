"""`strandline down`: stop every process of a local cluster."""

from strandline_cli.cluster.target import cluster_directory
from strandline_cli.options import DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_done
from strandline_local.local_cluster import LocalCluster


def down(directory: DirOption = None, output: FormatOption = Format.TABLE) -> int:
    """Stop the brokers, then the controller (SIGTERM). Data stays; `up` resumes it.

    Example: strandline down
    """
    cluster = LocalCluster.open(cluster_directory(directory))
    living = cluster.alive()
    killed = cluster.down()
    stopped = ", ".join(map(str, living)) or "nothing was running"
    line = f"stopped: {stopped}"
    if killed:
        line += f" (killed, as they did not stop in time: {', '.join(map(str, killed))})"
    emit_done(output, {"stopped": living, "killed": killed}, line)
    return 1 if killed else 0
