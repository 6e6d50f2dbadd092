import assert from "node:assert/strict";
import { test } from "node:test";
import { round, scale, slide, tail, ticks, whole, zoom } from "../src/draw/axis.ts";
import { burstsOf } from "../src/draw/bursts.ts";
import { brief, bytes, count, indentedJson, span, visible } from "../src/draw/format.ts";
import { partOf } from "../src/draw/paging.ts";
import { isSettled, lanesOf, samplesOf } from "../src/draw/rebalance.ts";
import { epochRows, segmentsOf, segmentsOfGhost } from "../src/draw/segments.ts";
import { movedTo } from "../src/draw/selection.ts";
import { TRACKS, trackOf } from "../src/draw/tracks.ts";
import { gapsOf } from "../src/parts/chart.tsx";
import type { Group } from "../src/state/messages.ts";
import { delta, event, replica } from "./fixtures.ts";

test("a log is cut at its epochs, between its start and its end", () => {
  const found = segmentsOf(replica(1, { log_start: 20, epochs: [[1, 0], [2, 30], [4, 60]] }));
  assert.deepEqual(found, [
    { epoch: 1, from: 20, to: 30 },
    { epoch: 2, from: 30, to: 60 },
    { epoch: 4, from: 60, to: 100 },
  ]);
});

test("what is older than the table has no epoch", () => {
  assert.deepEqual(segmentsOf(replica(1, { epochs: [[4, 60]] }))[0], { epoch: null, from: 0, to: 60 });
  assert.deepEqual(segmentsOf(replica(1, { epochs: null })), [{ epoch: null, from: 0, to: 100 }]);
  assert.deepEqual(segmentsOf(replica(1, { log_end: null })), []);
  assert.deepEqual(segmentsOf(replica(1, { log_start: 100 })), []);
});

test("a ghost has the epochs of what was cut off", () => {
  const ghost = { start: 40, end: 50, epochs: [[2, 40], [3, 45]] } as unknown as Parameters<typeof segmentsOfGhost>[0];
  assert.deepEqual(segmentsOfGhost(ghost).map((one) => [one.epoch, one.from, one.to]), [[2, 40, 45], [3, 45, 50]]);
});

test("epoch tables stand side by side, and an unknown table is not an empty one", () => {
  const rows = epochRows([replica(1), replica(2, { epochs: [[1, 0]] }), replica(3, { epochs: null }), null]);
  assert.deepEqual(rows, [
    { epoch: 4, starts: [60, null, undefined, undefined] },
    { epoch: 1, starts: [0, 0, undefined, undefined] },
  ]);
});

test("the axis shows every mark, and is bounded by the log", () => {
  const range = tail([1000, 1004, 990], 0);
  assert.ok(range.from <= 990 && range.to > 1004);
  assert.equal(tail([3, 3], 0).from, 0);
  assert.deepEqual(whole(0, 100), { from: 0, to: 105 });
  assert.equal(scale({ from: 0, to: 10 }, 500).x(5), 250);
  assert.equal(scale({ from: 0, to: 10 }, 500).x(0), 7);
  assert.deepEqual(ticks({ from: 3, to: 21 }, 4), [5, 10, 15, 20]);
  assert.equal(ticks({ from: 0, to: 2 }, 40).length, 3);
  assert.deepEqual([round(1), round(11), round(20), round(900)], [1, 20, 20, 1000]);
  const all = { from: 0, to: 100 };
  assert.deepEqual(zoom({ from: 0, to: 100 }, 0.5, all), { from: 50, to: 100 });
  assert.deepEqual(slide({ from: 50, to: 100 }, -80, all), { from: 0, to: 50 });
});

test("numbers are short and exact where they have to be", () => {
  assert.deepEqual([brief(999), brief(1234), brief(34_000), brief(5_600_000)], ["999", "1.2k", "34k", "5.6M"]);
  assert.equal(count(1234567), "1,234,567");
  assert.deepEqual([span(40), span(9500), span(61_000), span(120_000)], ["40 ms", "9.5 s", "1 min 1 s", "2 min"]);
  assert.deepEqual([bytes(12), bytes(10_485_760)], ["12 B", "10 MiB"]);
});

test("marks that turn or hide text become visible", () => {
  assert.equal(visible("a\u202eb\u0000"), "a\\u202eb\\u0000");
  assert.equal(visible("<b>é日本"), "<b>é日本");
});

test("each kind of event has one track", () => {
  const kinds = TRACKS.flatMap((track) => track.kinds);
  assert.equal(new Set(kinds).size, kinds.length);
  assert.equal(trackOf(event(1, "truncation", 0)).name, "Truncations");
});

test("many elections at one instant are one burst; a few stay apart", () => {
  const many = [1, 2, 3, 4, 5].map((id) => event(id, "election", 1000 + id));
  assert.deepEqual(burstsOf(many).map((burst) => burst.rest.length), [4]);
  assert.equal(burstsOf(many.slice(0, 3)).length, 3);
  assert.equal(burstsOf([...many, event(6, "isr", 1006), event(7, "election", 1007)]).length, 3);
  assert.equal(burstsOf([event(1, "isr", 0), event(2, "isr", 9000)]).length, 2);
});

test("seconds without a value are gaps", () => {
  assert.deepEqual(gapsOf([1, null, null, 2, null]), [[0, 3], [3, 4]]);
  assert.deepEqual(gapsOf([1, 2]), []);
});

const member = (id: string, epoch: number, assigned: string[], target = assigned) => ({ id, client_id: id, client_host: "", instance_id: null, epoch, assigned, target });
const group = (change: Partial<Group>): Group => ({ id: "g", kind: "Consumer", state: "Stable", epoch: 1, assignment_epoch: 1, assignor: "uniform", coordinator: 1, coordinator_epoch: 1, members: [], offsets: {}, lag: null, ...change });

test("a rebalance is the spans between its deltas", () => {
  const before = group({ members: [member("a", 1, ["t:0", "t:1"])] });
  const deltas = [
    delta(1, 100, { groups: { g: { state: "Reconciling", epoch: 2, members: [member("a", 1, ["t:0", "t:1"], ["t:0"])] } } }),
    delta(2, 150, { groups: { other: { state: "Empty" } } }),
    delta(3, 200, { groups: { g: { state: "Stable", members: [member("a", 2, ["t:0"]), member("b", 2, ["t:1"])] } } }),
  ];
  const samples = samplesOf("g", 50, before, deltas);
  assert.deepEqual(samples.map((one) => [one.time, isSettled(one.group)]), [[50, true], [100, false], [200, true]]);
  const lanes = lanesOf(samples, 300);
  assert.deepEqual(lanes.map((lane) => lane.name), ["group", "a", "b"]);
  assert.deepEqual(lanes[1]?.spans, [
    { from: 50, to: 200, epoch: 1, text: "2 partitions" },
    { from: 200, to: 300, epoch: 2, text: "1 partition" },
  ]);
  assert.deepEqual(lanes[2]?.spans, [{ from: 200, to: 300, epoch: 2, text: "1 partition" }]);
});

test("JSON is laid out without a change of its text", () => {
  const given = '{"id":9007199254740993,"a":[1,{"b":"x, {y}: \\"[z]"}],"e":[],"o":{},"id":1.50}';
  const laid = indentedJson(given);
  assert.equal(laid.replace(/\n */g, "").replaceAll('": ', '":'), given.replaceAll('": ', '":').replace("}: ", "}: "));
  assert.ok(laid.includes('"id": 9007199254740993'));
  assert.ok(laid.includes('"id": 1.50'));
  assert.equal(indentedJson('[1,[2]]'), "[\n  1,\n  [\n    2\n  ]\n]");
  assert.equal(indentedJson(' "a b" '), '"a b"');
});

test("a selection is moved by its begin and its end, and is never empty", () => {
  const all = { from: 10_000, to: 70_000 };
  assert.deepEqual(movedTo("begin", 30_000, null, all), { from: 30_000, to: 70_000 });
  assert.deepEqual(movedTo("end", 30_000, null, all), { from: 10_000, to: 30_000 });
  assert.deepEqual(movedTo("end", 50_000, { from: 30_000, to: 70_000 }, all), { from: 30_000, to: 50_000 });
  assert.deepEqual(movedTo("begin", 60_000, { from: 30_000, to: 50_000 }, all), { from: 60_000, to: 70_000 });
  assert.deepEqual(movedTo("end", 20_000, { from: 30_000, to: 50_000 }, all), { from: 10_000, to: 20_000 });
  assert.deepEqual(movedTo("begin", 70_000, null, all), { from: 69_000, to: 70_000 });
  assert.deepEqual(movedTo("end", 10_000, null, all), { from: 10_000, to: 11_000 });
});

test("a long row is shown in parts, wherever a link points", () => {
  assert.deepEqual(partOf(10_000, 0, 50), { first: 0, end: 50, total: 10_000 });
  assert.deepEqual(partOf(10_000, 9_990, 50), { first: 9_950, end: 10_000, total: 10_000 });
  assert.deepEqual(partOf(120, 1e9, 50), { first: 100, end: 120, total: 120 });
  assert.deepEqual(partOf(120, -7, 50), { first: 0, end: 50, total: 120 });
  assert.deepEqual(partOf(120, Number.NaN, 50), { first: 0, end: 50, total: 120 });
  assert.deepEqual(partOf(0, 50, 50), { first: 0, end: 0, total: 0 });
});
