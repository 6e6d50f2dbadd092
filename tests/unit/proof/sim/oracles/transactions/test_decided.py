"""The oracles' own decoder of `__transaction_state`, on Kafka's bytes."""

from strandline_proof.sim.oracles.transactions.decided import Decision, decision_of

KEY = bytes.fromhex("0000 0004 74782d61")
TIMES = "0000018bcfe56801 0000018bcfe56800"


def test_a_decided_transaction_names_its_partitions() -> None:
    value = f"0001 0000000000000002 0001 0000ea60 02 02 0474786e 02 00000000 00 {TIMES} 00"
    assert decision_of(KEY, bytes.fromhex(value)) == Decision("tx-a", 2, 1, 2, (("txn", 0),))


def test_tags_and_several_topics_are_read() -> None:
    topics = "03 0261 03 00000000 00000007 00 0474786e 02 00000001 00"
    tags = "02 00 08 0000000000000002 02 02 0002"
    value = f"0001 0000000000000002 7fff 0000ea60 03 {topics} {TIMES} {tags}"
    wanted = (("a", 0), ("a", 7), ("txn", 1))
    assert decision_of(KEY, bytes.fromhex(value)) == Decision("tx-a", 2, 32767, 3, wanted)


def test_an_empty_id_and_a_tombstone_have_nothing() -> None:
    value = f"0001 0000000000000002 0001 0000ea60 00 00 {TIMES} 00"
    assert decision_of(KEY, bytes.fromhex(value)) == Decision("tx-a", 2, 1, 0, ())
    assert decision_of(KEY, None) is None
