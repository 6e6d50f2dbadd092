"""`strandline start`: one process of a local cluster."""

from strandline_cli.cluster.target import cluster_directory
from strandline_cli.commands.local.process_argument import ProcessArgument
from strandline_cli.options import DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_done
from strandline_local.cluster_files import CONTROLLER
from strandline_local.local_cluster import LocalCluster


def start(
    process_id: ProcessArgument,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Start one process and wait until it answers.

    Example: strandline start 2
    """
    cluster = LocalCluster.open(cluster_directory(directory))
    cluster.start(process_id)
    document = {"id": process_id, "pid": cluster.process(process_id).pid}
    line = f"{process_id} answers at {cluster.address(process_id)}"
    if cluster.process(CONTROLLER).pid is None:
        line = (
            f"{process_id} runs, but is out of service until the controller runs as well:"
            " `strandline start controller`"
        )
    emit_done(output, document, line)
    return 0
