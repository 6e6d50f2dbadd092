/** The main view: every replica of a partition on one axis of offsets. */

import { useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { type Range, scale, slide, tail, ticks, whole, zoom } from "../draw/axis.ts";
import { count, listed } from "../draw/format.ts";
import { epochFill } from "../draw/palette.ts";
import { epochRows } from "../draw/segments.ts";
import { EventList } from "../parts/events.tsx";
import { useKeys, useScope, useWidth } from "../parts/hooks.ts";
import { Empty, Epoch, Known, Unknown } from "../parts/known.tsx";
import { PartitionPicker } from "../parts/picker.tsx";
import type { Replica, State } from "../state/messages.ts";
import { formatRoute } from "../state/route.ts";
import { whyNotInSync } from "../state/why.ts";
import { isCurrent, keyOf, lagOf, membership, nameOf, replicaOf } from "../state/world.ts";
import { Lane } from "./lane.tsx";

type View = "tail" | "whole" | Range;

export function PartitionPage() {
  const { store, route } = useConsole();
  const key = route.item;
  useScope(key === "" ? { kind: "window", first: 0, count: 60, q: "" } : { kind: "partitions", keys: [key] });
  if (key === "") {
    return (
      <>
        <div class="head">
          <h1>Partition</h1>
          <PartitionPicker page="partition" />
        </div>
        <Empty title="Choose a partition">
          Type a topic above, or press Enter on a cell of the <a href={formatRoute({ ...route, page: "board", item: "" })}>Board</a>.
        </Empty>
      </>
    );
  }
  const { state } = store.shown;
  const isThere = membership(state, key).assigned.length > 0;
  return (
    <>
      <div class="head">
        <h1 class="clip">{key}</h1>
        {isThere && <Facts state={state} partition={key} />}
        <span class="space" />
        <a href={formatRoute({ ...route, page: "records", options: {} })}>Records</a>
        <PartitionPicker page="partition" />
      </div>
      {isThere ? (
        <Replicas key={key} state={state} partition={key} />
      ) : store.isReady ? (
        <Empty title={`No server has reported ${key}`}>
          It does not exist at this instant, or no server that has it is watched.
        </Empty>
      ) : (
        <p class="dim">Asking for {key} …</p>
      )}
    </>
  );
}

function Facts({ state, partition }: { state: State; partition: string }) {
  const known = membership(state, partition);
  const decided = state.partitions[partition];
  const proposed = known.leader === null ? null : replicaOf(state, partition, known.leader)?.isr_proposed;
  return (
    <span class="facts" data-testid="facts">
      <span>
        leader <b>{known.leader === null ? <Unknown /> : known.leader < 0 ? <span class="bad">none</span> : known.leader}</b>
      </span>
      <span>
        epoch <Epoch epoch={known.epoch} />
      </span>
      <span>
        ISR <b>{known.isr === null ? <Unknown /> : listed(known.isr)}</b>
        {proposed != null && <span class="warn"> → {listed(proposed)} proposed</span>}
      </span>
      <span>
        minimum <Known value={known.minIsr} />
      </span>
      {known.elr.length > 0 && <span>ELR {listed(known.elr)}</span>}
      {(decided?.adding?.length ?? 0) > 0 && <span class="warn">adding {listed(decided?.adding ?? [])}</span>}
      {(decided?.removing?.length ?? 0) > 0 && <span class="warn">removing {listed(decided?.removing ?? [])}</span>}
      {decided?.recovering === true && <span class="warn">recovering from an unclean election</span>}
    </span>
  );
}

function Replicas({ state, partition }: { state: State; partition: string }) {
  const { store } = useConsole();
  const [view, setView] = useState<View>("tail");
  const [box, width] = useWidth<HTMLDivElement>(640);
  const known = membership(state, partition);
  const brokers = [...known.assigned];
  for (const one of Object.values(state.replicas)) {
    if (keyOf(one.topic, one.partition) === partition && !brokers.includes(one.broker)) brokers.push(one.broker);
  }
  brokers.sort((a, b) => a - b);
  const replicas = brokers.map((broker) => replicaOf(state, partition, broker));
  const extent = extentOf(replicas);
  const all = whole(extent.start, extent.end);
  const range = view === "tail" ? tail(extent.marks, extent.start) : view === "whole" ? all : view;
  const at = scale(range, width);
  useZoomKeys(range, all, setView);
  const leader = known.leader !== null && known.leader >= 0 ? replicaOf(state, partition, known.leader) : null;
  const isLeaderCurrent = known.leader !== null && isCurrent(state, known.leader);
  const name = nameOf(partition);
  const events = store.events.filter(
    (event) => event.topic === name.topic && event.partition === name.partition && event.at_ms <= (store.at ?? Infinity),
  );
  return (
    <div class="stack">
      <section class="card lanes">
        <div class="lanes-bar">
          <span class="row">
            <span class="segmented" role="group" aria-label="Part of the log">
              <button aria-pressed={view === "tail"} onClick={() => setView("tail")} title="The end of the logs (0)">
                End
              </button>
              <button aria-pressed={view === "whole"} onClick={() => setView("whole")}>
                Whole
              </button>
              <button title="Wider (−)" aria-label="Wider" onClick={() => setView(zoom(range, 2, all))}>
                −
              </button>
              <button title="Closer (+)" aria-label="Closer" onClick={() => setView(zoom(range, 0.5, all))}>
                +
              </button>
            </span>
          </span>
          <Legend />
        </div>
        <div ref={box}>
          <Axis range={range} width={width} />
          {brokers.map((broker, i) => (
            <Lane
              key={broker}
              broker={broker}
              replica={replicas[i] ?? null}
              isStale={!isCurrent(state, broker)}
              isLeader={broker === known.leader}
              inSync={known.isr === null ? null : known.isr.includes(broker)}
              fetcher={isLeaderCurrent ? (leader?.fetchers?.find((one) => one.broker === broker) ?? null) : null}
              lag={lagOf(state, partition, broker)}
              committed={isLeaderCurrent ? (leader?.high_watermark ?? null) : null}
              scale={at}
              why={whyNotInSync(state, partition, broker)}
            />
          ))}
        </div>
        <Patterns />
      </section>
      <div class="cols">
        <EpochTables brokers={brokers} replicas={replicas} leader={known.leader} />
        <section class="card">
          <h2>What happened to it</h2>
          <EventList events={events} most={12} />
        </section>
      </div>
    </div>
  );
}

function useZoomKeys(range: Range, all: Range, setView: (view: View) => void) {
  const length = range.to - range.from;
  const closer = () => setView(zoom(range, 0.5, all));
  useKeys({
    "+": closer,
    "=": closer,
    "-": () => setView(zoom(range, 2, all)),
    "0": () => setView("tail"),
    "[": () => setView(slide(range, -length / 4, all)),
    "]": () => setView(slide(range, length / 4, all)),
  });
}

function extentOf(replicas: readonly (Replica | null)[]): { start: number; end: number; marks: number[] } {
  const starts: number[] = [];
  const marks: number[] = [];
  for (const replica of replicas) {
    if (replica === null) continue;
    if (replica.log_start !== null) starts.push(replica.log_start);
    for (const mark of [replica.log_end, replica.high_watermark, replica.durable]) if (mark !== null) marks.push(mark);
    for (const ghost of (replica.ghosts ?? []).slice(-1)) marks.push(ghost.start, ghost.end);
    for (const waiter of replica.waiters ?? []) if (waiter.kind !== "delete_records") marks.push(waiter.offset);
    for (const fetcher of replica.fetchers ?? []) if (fetcher.fetch_offset !== null) marks.push(fetcher.fetch_offset);
  }
  return { start: starts.length === 0 ? 0 : Math.min(...starts), end: Math.max(0, ...marks), marks };
}

function Axis({ range, width }: { range: Range; width: number }) {
  const at = scale(range, width);
  return (
    <svg width={width} height="20" class="axis" aria-hidden="true">
      {ticks(range, Math.max(2, Math.floor(width / 90))).map((offset) => {
        const x = at.x(offset);
        return (
          <g key={offset}>
            <line x1={x} x2={x} y1="15" y2="20" stroke="var(--line-strong)" />
            <text x={x} y="11" text-anchor={x < 20 ? "start" : x > width - 24 ? "end" : "middle"}>
              {count(offset)}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

const LEGEND: readonly (readonly [string, string])[] = [
  ["[", "log start"],
  ["■", "durable"],
  ["▼", "its own watermark"],
  ["▌", "log end"],
  ["△", "its last fetch"],
  ["○", "callers wait"],
  ["┊", "the leader's watermark"],
];

function Legend() {
  return (
    <p class="legend">
      {LEGEND.map(([mark, what]) => (
        <span key={what}>
          <i aria-hidden="true">{mark}</i>
          {what}
        </span>
      ))}
      <span>
        <i class="dashed" aria-hidden="true" />
        cut off
      </span>
    </p>
  );
}

function Patterns() {
  return (
    <svg width="0" height="0" class="patterns" aria-hidden="true">
      <defs>
        <pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="5" height="5" fill="var(--sheet)" opacity="0.35" />
          <line x1="0" y1="0" x2="0" y2="5" stroke="var(--ink-3)" stroke-width="1.4" />
        </pattern>
        <pattern id="volatile" width="4" height="4" patternUnits="userSpaceOnUse">
          <rect width="4" height="4" fill="var(--sheet)" opacity="0.55" />
          <circle cx="1" cy="1" r="0.8" fill="var(--ink)" opacity="0.5" />
        </pattern>
      </defs>
    </svg>
  );
}

const EPOCHS_SHOWN = 12;

function EpochTables({ brokers, replicas, leader }: { brokers: number[]; replicas: (Replica | null)[]; leader: number | null }) {
  const known = epochRows(replicas);
  const rows = known.slice(0, EPOCHS_SHOWN);
  const older = known.length - rows.length + Math.max(0, ...replicas.map((one) => one?.epochs_older ?? 0));
  const reference = leader === null ? -1 : brokers.indexOf(leader);
  return (
    <section class="card" data-testid="epoch-tables">
      <h2>Epoch tables</h2>
      {rows.length === 0 && <p class="dim">No replica has reported an epoch: nothing was appended, or no broker is watched.</p>}
      <div class="scroll">
        <table>
          {rows.length > 0 && (
            <thead>
              <tr>
                <th>first offset of</th>
                {brokers.map((broker) => (
                  <th key={broker} class="num">
                    broker {broker}
                  </th>
                ))}
              </tr>
            </thead>
          )}
          <tbody>
            {rows.map(({ epoch, starts }) => (
              <tr key={epoch}>
                <td>
                  <span class="swatch" style={{ background: epochFill(epoch) }} /> epoch {epoch}
                </td>
                {starts.map((start, i) => {
                  const other = starts[reference];
                  const isEmpty = start === null && other != null && other >= (replicas[i]?.log_end ?? Infinity);
                  const differs = start !== undefined && other !== undefined && start !== other && !isEmpty;
                  return (
                    <td key={brokers[i]} class={`num ${differs ? "warn" : ""}`}>
                      {differs && <span title="Not as at the leader">≠ </span>}
                      {start === undefined ? <Unknown /> : start === null ? <span class="faint">{isEmpty ? "no record yet" : "none"}</span> : count(start)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {older > 0 && <p class="dim">and {older} earlier epochs</p>}
    </section>
  );
}
