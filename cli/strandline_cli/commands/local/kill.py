"""`strandline kill`: one process, at once."""

from strandline_cli.cluster.target import cluster_directory
from strandline_cli.commands.local.process_argument import ProcessArgument
from strandline_cli.options import DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_done
from strandline_local.local_cluster import LocalCluster


def kill(
    process_id: ProcessArgument,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Kill one process with SIGKILL: it has no time to flush.

    Example: strandline kill 2
    """
    cluster = LocalCluster.open(cluster_directory(directory))
    cluster.kill(process_id)
    document = {"id": process_id, "pid": cluster.process(process_id).pid}
    emit_done(output, document, f"{process_id} was killed")
    return 0
