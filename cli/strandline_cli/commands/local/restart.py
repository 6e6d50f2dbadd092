"""`strandline restart`: one process, stopped and started again."""

from strandline_cli.cluster.target import cluster_directory
from strandline_cli.commands.local.process_argument import ProcessArgument
from strandline_cli.options import DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_done
from strandline_local.local_cluster import LocalCluster


def restart(
    process_id: ProcessArgument,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Stop one process with SIGTERM and start it again.

    Example: strandline restart controller
    """
    cluster = LocalCluster.open(cluster_directory(directory))
    cluster.restart(process_id)
    document = {"id": process_id, "pid": cluster.process(process_id).pid}
    emit_done(output, document, f"{process_id} answers again at {cluster.address(process_id)}")
    return 0
