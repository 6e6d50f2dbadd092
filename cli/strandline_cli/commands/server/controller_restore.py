"""`strandline controller restore`: a new store that replaces a lost or outdated one."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.cluster.target import cluster_directory
from strandline_cli.errors import CliError, UsageMistake
from strandline_cli.options import DirOption, Format, FormatOption
from strandline_cli.shown.output import emit_json, note, write_line

if TYPE_CHECKING:
    from strandline_broker.hosts.controller.restore import RestoreRequest


def restore(
    directory: DirOption = None,
    controller_dir: Annotated[
        Path | None,
        typer.Option(
            "--controller-dir",
            metavar="PATH",
            help="The controller's data directory (log.dirs), if `up` did not start it.",
        ),
    ] = None,
    broker_dir: Annotated[
        list[Path] | None,
        typer.Option(
            "--broker-dir",
            metavar="PATH",
            help="A broker's data directory; repeat for each directory of every broker.",
        ),
    ] = None,
    node_id: Annotated[
        int | None,
        typer.Option(
            "--node-id",
            min=0,
            help="The controller's node id, if its directory does not contain it.",
        ),
    ] = None,
    discard_store: Annotated[
        bool,
        typer.Option("--discard-store", help="Start a new store and ignore the old one."),
    ] = False,
    recreate_missing: Annotated[
        bool,
        typer.Option("--recreate-missing", help="Recreate partitions without any replica, empty."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    output: FormatOption = Format.TABLE,
) -> int:
    """Rebuild the controller's store from an old copy and brokers.

    Without a copy, the brokers' directories alone decide.

    Stop every process first. All epochs, offsets and producer ids rise above any that a broker has
    seen. Topics that brokers hold are kept. The old store is renamed, not deleted.

    Example: strandline controller restore --dry-run
    """
    from strandline_broker.core.controller.log.restoration import CannotRestore
    from strandline_broker.hosts.controller.restore import Restoration
    from strandline_broker.storage.directory.directory import DirectoryError
    from strandline_runtime.real import real_runtime

    request = _request(
        directory,
        controller_dir,
        broker_dir or [],
        node_id=node_id,
        discard_store=discard_store,
        recreate_missing=recreate_missing,
    )
    try:
        with Restoration(real_runtime("strandline"), request) as restoration:
            if output is Format.TABLE:
                for line in restoration.lines:
                    write_line(line)
            if not dry_run:
                _confirm(request.controller_dir, yes=yes)
                restoration.carry_out()
            if output is Format.JSON:
                emit_json(
                    {
                        "restored": not dry_run,
                        "controller_dir": request.controller_dir,
                        "broker_dirs": request.broker_dirs,
                        "actions": restoration.lines,
                    }
                )
    except (CannotRestore, DirectoryError) as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(
            f"{error.filename or 'a directory'} could not be read or written"
            f" ({error.strerror or error}); all that was there is kept: mend it and run it again"
        ) from error
    if output is Format.TABLE:
        done = (
            "nothing was changed" if dry_run else "restored: start the controller, then all brokers"
        )
        write_line(done)
    return 0


def _request(
    directory: Path | None,
    controller_dir: Path | None,
    broker_dirs: list[Path],
    *,
    node_id: int | None,
    discard_store: bool,
    recreate_missing: bool,
) -> "RestoreRequest":
    from strandline_broker.hosts.controller.restore import RestoreRequest

    if (controller_dir is None) != (not broker_dirs):
        raise UsageMistake("--controller-dir and --broker-dir go together: give both, or --dir")
    if controller_dir is not None:
        if directory is not None:
            raise UsageMistake("--dir and --controller-dir both name a cluster: give one of them")
        if not controller_dir.is_dir():
            raise UsageMistake(f"{controller_dir} is not a directory: make it, if it is lost")
        controller, brokers = str(controller_dir), tuple(map(str, broker_dirs))
        defaults = None
    else:
        controller, brokers, node_id, defaults = _local(cluster_directory(directory))
    for path in brokers:
        if not Path(path).is_dir():
            raise UsageMistake(f"{path} is not a directory: name a broker's data directory")
    return RestoreRequest(
        controller_dir=controller,
        broker_dirs=brokers,
        node_id=node_id,
        discard_store=discard_store,
        recreate_missing=recreate_missing,
        defaults=defaults,
    )


def _local(directory: Path) -> tuple[str, tuple[str, ...], int, dict[str, str] | None]:
    """The data directories of a cluster that `up` has started, the controller's node id, and its
    defaults for topics.
    """
    from strandline_local.cluster_files import broker_keys, controller_keys
    from strandline_local.local_cluster import LocalCluster

    file = LocalCluster.open(directory).file
    keys = controller_keys(directory, file)
    brokers = [
        path.strip()
        for broker_id in file.broker_ports
        for path in str(broker_keys(directory, file, broker_id)["log.dirs"]).split(",")
    ]
    present = [path for path in brokers if Path(path).is_dir()]
    for path in sorted(set(brokers) - set(present)):
        note(f"{path} does not exist and is left out")
    defaults = _topic_defaults({key: str(value) for key, value in keys.items()})
    return str(keys["log.dirs"]), tuple(present), int(keys["node.id"]), defaults


def _topic_defaults(controller: dict[str, str]) -> dict[str, str] | None:
    """The controller's topic defaults at its next start; None if it would refuse to start."""
    from strandline_broker.config.loading import ConfigError, load_controller_config
    from strandline_broker.core.controller.log.state import MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION

    try:
        config = load_controller_config(None, controller, os.environ)
    except ConfigError:
        return None
    return {
        MIN_INSYNC_REPLICAS: str(config.min_insync_replicas),
        UNCLEAN_ELECTION: str(config.unclean_leader_election_enable).lower(),
    }


def _confirm(controller_dir: str, *, yes: bool) -> None:
    if yes:
        return
    question = f"Replace the store in {controller_dir}?"
    if not sys.stdin.isatty() or not typer.confirm(question, err=True):
        raise UsageMistake("nothing was changed; --yes restores without asking")
