"""A broker's replicas loaded from a data directory that Kafka closed, and closed again."""

from pathlib import Path

from strandline_broker.storage.log.producer_snapshot import serialize
from support.kafka_golden import CLEAN, GOLDEN, copy_to
from support.replica_nodes import run_node


def of_this_cluster(root: Path) -> Path:
    meta = root / "meta.properties"
    lines = meta.read_text("utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("cluster.id=")]
    meta.write_text("\n".join([*kept, "cluster.id=c", ""]), "utf-8")
    return root


def files_of(root: Path, name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / name).iterdir()}


async def test_every_replica_is_loaded_with_its_producers_and_left_as_it_was(
    tmp_path: Path,
) -> None:
    root = of_this_cluster(copy_to(tmp_path / "golden") / "clean")
    async with run_node(root, 0) as node:
        assert node.directory.online[0].clean
        assert node.replicas.logs.refused == {}
        found = {Path(p.log.path).name: p for p in node.replicas.partitions.values()}
        assert sorted(found) == CLEAN
        for name, partition in found.items():
            end = partition.log.log_end_offset
            assert partition.high_watermark == end
            kafkas = files_of(GOLDEN / "clean", name).get(f"{end:020d}.snapshot", serialize([]))
            assert serialize(partition.producers.entries()) == kafkas, name
    for name in CLEAN:
        ours, theirs = files_of(root, name), files_of(GOLDEN / "clean", name)
        ours.pop(f"{0:020d}.snapshot", None)
        assert ours.pop("partition.metadata.seal"), name
        assert ours == theirs, name
