"""`strandline restart`: one process, stopped and started again."""

from strandline_cli.commands.process_argument import ProcessArgument
from strandline_cli.local_cluster import LocalCluster
from strandline_cli.options import DirOption, Format, FormatOption
from strandline_cli.output import emit_done
from strandline_cli.target import cluster_directory


def restart(
    process_id: ProcessArgument,
    directory: DirOption = None,
    output: FormatOption = Format.TABLE,
) -> int:
    """Stop one process with SIGTERM and start it again."""
    cluster = LocalCluster.open(cluster_directory(directory))
    cluster.restart(process_id)
    document = {"id": process_id, "pid": cluster.process(process_id).pid}
    emit_done(output, document, f"{process_id} answers again at {cluster.address(process_id)}")
    return 0
