import assert from "node:assert/strict";
import { test } from "node:test";
import { History } from "../src/state/history.ts";
import { formatRoute, parseRoute } from "../src/state/route.ts";
import { scopeQuery, type Source, TraceSource } from "../src/state/source.ts";
import { Store } from "../src/state/store.ts";
import { whyNotInSync } from "../src/state/why.ts";
import { brokerIds, lagOf, membership, merge, nameOf, partitionNames } from "../src/state/world.ts";
import { delta, event, partition, replica, server, state, world } from "./fixtures.ts";

const ends = (count: number) =>
  Array.from({ length: count }, (_, i) => delta(i + 1, 1000 + i * 10, { replicas: { "orders:0@1": { log_end: 101 + i } } }));

test("a delta changes the fields that it names, and leaves the world before it alone", () => {
  const before = world();
  const after = merge(before, [delta(7, 2000, { replicas: { "orders:0@1": { log_end: 120 } } })]);
  assert.equal(after.state.replicas["orders:0@1"]?.log_end, 120);
  assert.equal(after.state.replicas["orders:0@1"]?.high_watermark, 95);
  assert.equal(before.state.replicas["orders:0@1"]?.log_end, 100);
  assert.equal(after.state.replicas["orders:0@2"], before.state.replicas["orders:0@2"]);
  assert.deepEqual([after.instant.frame, after.instant.at_ms], [7, 2000]);
});

test("a delta removes entities, and a null makes a value unknown again", () => {
  const after = merge(world(), [
    delta(1, 1, { replicas: { "orders:0@1": { durable: null } } }, { replicas: ["orders:0@3"] }),
  ]);
  assert.equal("orders:0@3" in after.state.replicas, false);
  assert.equal(after.state.replicas["orders:0@1"]?.durable, null);
});

test("an entity that leaves and comes back in one frame is a new one", () => {
  const after = merge(world(), [delta(1, 1, { replicas: { "orders:0@3": { log_end: 7 } } }, { replicas: ["orders:0@3"] })]);
  assert.deepEqual(after.state.replicas["orders:0@3"], { log_end: 7 });
});

test("the counters of the workload are merged", () => {
  const after = merge(world(), [delta(1, 1, { workload: { "": { sent: 5 } } }), delta(2, 2, { workload: { "": { read: 4 } } })]);
  assert.deepEqual(after.state.workload, { sent: 5, read: 4 });
});

test("a recording shows the state of every instant, in any order", () => {
  const history = new History(world(), ends(1000));
  const endAt = (time: number) => history.at(time).state.replicas["orders:0@1"]?.log_end;
  for (const i of [999, 0, 500, 199, 200, 201, 777]) assert.equal(endAt(1000 + i * 10), 101 + i);
  assert.equal(endAt(999), 100);
  assert.equal(endAt(1009), 101);
  assert.equal(endAt(1e9), 1100);
  assert.equal(history.frame(3).state.replicas["orders:0@1"]?.log_end, 103);
  assert.equal(history.deltasAfter(998).length, 2);
});

test("a recorded file is replayed without a server", async () => {
  const trace = {
    version: 1,
    build: "b",
    made_ms: 0,
    from_ms: 1000,
    to_ms: 1090,
    keyframe: { ...world(), run: "r" },
    deltas: ends(10),
    events: [event(0, "isr", 1000)],
  };
  const source: Source = new TraceSource(trace);
  const all = { kind: "window", first: 0, count: 10, q: "" } as const;
  assert.equal((await source.at({ instant: 1050 }, all)).state.replicas["orders:0@1"]?.log_end, 106);
  assert.deepEqual((await source.at({ instant: 1050 }, { ...all, q: "xyz" })).window.total, 0);
  assert.equal((await source.deltas(9, all)).length, 1);
  assert.equal((await source.timeline(0, 0)).length, 1);
});

test("a route is written and read back, with strange names", () => {
  const route = { page: "partition", item: "a/b?c#d é:0", at: 1732880000123, options: { q: "x&y=%" } } as const;
  assert.deepEqual(parseRoute(formatRoute(route)), route);
  assert.equal(formatRoute({ page: "records", item: "orders:0", at: null, options: {} }), "#/records/orders:0");
  assert.equal(parseRoute("#/nonsense/x?at=-3").page, "board");
  assert.equal(parseRoute("#/board?at=soon").at, null);
  assert.equal(parseRoute("#/partition/%E0%A4%A").item, "%E0%A4%A");
});

test("a scope names its window or its partitions", () => {
  assert.equal(`${scopeQuery({ kind: "partitions", keys: ["a:0", "b:1"] })}`, "partition=a%3A0&partition=b%3A1");
  assert.equal(`${scopeQuery({ kind: "window", first: 5, count: 9, q: "o&p" })}`, "first=5&count=9&q=o%26p");
});

test("names keep dashes, and are in order of their numbers", () => {
  assert.deepEqual(nameOf("a-b:12"), { key: "a-b:12", topic: "a-b", partition: 12 });
  const partitions = Object.fromEntries([10, 2, 0].map((n) => [`orders:${n}`, partition({ partition: n })]));
  partitions["__internal:0"] = partition({ topic: "__internal" });
  assert.deepEqual(partitionNames(state({ partitions, replicas: {} })).map((one) => one.partition), [0, 2, 10, 0]);
});

test("without a controller the newest epoch that a replica reports is believed", () => {
  const known = membership(state({ partitions: {}, replicas: { "orders:0@1": replica(1, { leader_epoch: 3 }), "orders:0@2": replica(2, { role: "leader", leader_epoch: 4 }) } }), "orders:0");
  assert.equal(known.leader, 2);
  assert.equal(known.epoch, 4);
});

test("lag is unknown where an end is unknown", () => {
  assert.equal(lagOf(state(), "orders:0", 3), 60);
  assert.equal(lagOf(state(), "orders:0", 1), 0);
  assert.equal(lagOf(state({ servers: { "broker-1": server(1, { state: "absent" }) } }), "orders:0", 3), null);
  assert.equal(lagOf(state({ partitions: { "orders:0": partition({ leader: -1 }) } }), "orders:0", 3), null);
});

test("a broker that nobody watches is known from the leader's fetchers", () => {
  const replicas = { "orders:0@1": replica(1, { fetchers: [{ broker: 3, fetch_offset: 70, last_caught_up_ms: 90_000, in_maximal_isr: false }] }) };
  const gone = state({ replicas, servers: { "broker-1": server(1), "broker-3": server(3, { state: "absent" }) } });
  assert.equal(lagOf(gone, "orders:0", 3), 30);
});

const sentences: readonly [string, Partial<Parameters<typeof server>[1]>, Partial<ReturnType<typeof replica>>, RegExp][] = [
  ["fenced", { fenced: true, last_heartbeat_ms: 91_000 }, {}, /fenced it, its last heartbeat was 9\.0 s old\./],
  ["shutting down", { in_controlled_shutdown: true }, {}, /because it is shutting down\./],
  ["full disk", { directories: [{ path: "/d", condition: "full", reason: "no room" }] }, {}, /its disk \/d is full \(no room\)\./],
  ["condition", {}, { condition: "corrupt", condition_reason: "A checksum is wrong." }, /needs care: corrupt \(A checksum is wrong\)\./],
  ["refusal", {}, { refused_truncation_to: 12 }, /refuses to truncate to 12, below its watermark\./],
  ["lag", {}, {}, /60 records behind leader 1\./],
];
for (const [name, ofServer, ofReplica, expected] of sentences) {
  test(`why a broker is not in the ISR: ${name}`, () => {
    const base = state();
    const found = whyNotInSync(
      state({
        servers: { ...base.servers, "broker-3": server(3, ofServer) },
        replicas: { ...base.replicas, "orders:0@3": replica(3, { log_end: 40, ...ofReplica }) },
      }),
      "orders:0",
      3,
    );
    assert.match(found, /^Broker 3 is not in the ISR of orders:0 because /);
    assert.match(found, expected);
  });
}

test("why: by the leader's own clock, and in the ELR", () => {
  const base = state();
  const leader = replica(1, { fetchers: [{ broker: 3, fetch_offset: 40, last_caught_up_ms: 88_000, in_maximal_isr: false }] });
  const found = whyNotInSync(
    state({ partitions: { "orders:0": partition({ elr: [3] }) }, replicas: { ...base.replicas, "orders:0@1": leader } }),
    "orders:0",
    3,
  );
  assert.match(found, /caught up 12 s ago for the last time\. It is in the ELR/);
});

test("why: members, strangers and what no event says", () => {
  assert.match(whyNotInSync(state(), "orders:0", 1), /leads orders:0 in epoch 4; the ISR is 1, 2/);
  assert.match(whyNotInSync(state(), "orders:0", 9), /holds no replica/);
  assert.match(whyNotInSync(state({ partitions: {}, replicas: {} }), "orders:0", 1), /No server has reported/);
});

test("brokers of the matrix are those that anything names", () => {
  assert.deepEqual(brokerIds(state({ partitions: { "orders:0": partition({ replicas: [1, 7] }) } })), [1, 2, 3, 7]);
});

test("a step starts from the instant that an answer under way will show", async () => {
  const history = new History(world(), ends(10));
  const answers: (() => void)[] = [];
  const later = <T,>(answer: T) => new Promise<T>((give) => answers.push(() => give(answer)));
  const source = {
    trace: null,
    at: (place) => later("frame" in place ? history.frame(place.frame) : history.at(place.instant)),
    deltas: (after) => later(history.deltasAfter(after)),
  } as Partial<Source> as Source;
  Object.assign(globalThis, { requestAnimationFrame: () => 0 });
  const store = new Store(source);
  store.newest = 1090;
  const answered = async (move: Promise<void>) => {
    let isDone = false;
    void move.then(() => (isDone = true));
    while (!isDone) {
      answers.shift()?.();
      await new Promise((wake) => setTimeout(wake, 0));
    }
  };
  store.go(1040);
  await answered(store.step(1));
  assert.deepEqual([store.at, store.shown.instant.at_ms], [1050, 1050]);
  const first = store.step(1);
  await answered(Promise.all([first, store.step(-1)]).then(() => undefined));
  assert.deepEqual([store.at, store.shown.instant.at_ms], [1050, 1050]);
});
