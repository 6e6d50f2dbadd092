"""`strandline stop`: one process, in order."""

from strandline_cli.cluster.target import cluster_directory
from strandline_cli.commands.local.process_argument import ProcessArgument
from strandline_cli.options import DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_done
from strandline_local.local_cluster import LocalCluster


def stop(
    process_id: ProcessArgument,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Stop one process in order, with SIGTERM.

    A broker hands over its leaderships, flushes and ends.

    Example: strandline stop 2
    """
    cluster = LocalCluster.open(cluster_directory(directory))
    cluster.stop(process_id)
    document = {"id": process_id, "pid": cluster.process(process_id).pid}
    emit_done(output, document, f"{process_id} has stopped")
    return 0
