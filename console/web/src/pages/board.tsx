/** Brokers × partitions. Only what is seen is drawn and asked for: ten thousand partitions are as quick as ten. */

import { useEffect, useRef, useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { brief, listed, visible } from "../draw/format.ts";
import { BrokerStrip } from "../parts/brokers.tsx";
import { isTyping } from "../parts/help.tsx";
import { useScope, useWidth } from "../parts/hooks.ts";
import { Empty, Known, Unknown } from "../parts/known.tsx";
import type { State } from "../state/messages.ts";
import { formatRoute } from "../state/route.ts";
import type { Scope } from "../state/source.ts";
import { whyNotInSync } from "../state/why.ts";
import { brokerIds, controllerOf, membership, type Name, nameOf, partitionNames } from "../state/world.ts";
import { Cell, type Trouble, troubleOf } from "./cell.tsx";

const ROW = 30;
const AHEAD = 60;
const MOST = 400;

export function Board() {
  const { store, route } = useConsole();
  const q = route.options["q"] ?? "";
  const isTroubled = route.options["show"] === "troubled";
  const [first, setFirst] = useState(0);
  const [visibleCount, setVisible] = useState(120);
  const { state, window: part } = store.shown;
  const scope: Scope = isTroubled
    ? { kind: "partitions", keys: state.summary.troubled }
    : { kind: "window", first: Math.max(0, Math.floor(first / 50) * 50 - AHEAD), count: Math.min(MOST, visibleCount + 2 * AHEAD + 50), q };
  useScope(scope);
  const names = isTroubled ? state.summary.troubled.map(nameOf) : partitionNames(state);
  // The count of all moves with each delta; that of a window is of its keyframe.
  const all = q === "" ? state.summary.partitions : null;
  const total = isTroubled ? names.length : (all ?? Math.max(part.total, names.length));
  const nameAt = (i: number): Name | null => names[isTroubled ? i : i - part.first] ?? null;
  return (
    <>
      <h1 class="sr">Board</h1>
      <Tiles state={state} />
      <BrokerStrip state={state} />
      <div class="head">
        <Filters q={q} isTroubled={isTroubled} total={total} />
        <span class="space" />
        <Legend />
      </div>
      {total === 0 ? (
        <Nothing q={q} isTroubled={isTroubled} />
      ) : (
        <Matrix
          key={`${q} ${isTroubled}`}
          state={state}
          total={total}
          nameAt={nameAt}
          onWindow={(from, count) => {
            setFirst(from);
            setVisible(count);
          }}
        />
      )}
    </>
  );
}

function Nothing({ q, isTroubled }: { q: string; isTroubled: boolean }) {
  const { store } = useConsole();
  if (!store.isReady) return <p class="dim">Asking for the partitions …</p>;
  if (isTroubled && store.shown.state.summary.partitions === null) {
    return <Empty title="Unknown">No controller reports at this instant.</Empty>;
  }
  if (isTroubled) return <Empty title="Every partition is in order">All replicas are in sync at this instant.</Empty>;
  if (q !== "") return <Empty title={`No topic has “${q}” in its name`}>Clear the field to see all partitions.</Empty>;
  return <Empty title="No partition is known">The cluster has no topic yet, or no server reports to the console.</Empty>;
}

function Tiles({ state }: { state: State }) {
  const { summary } = state;
  const controller = controllerOf(state);
  const tile = (name: string, value: number | null, bad = "") => (
    <div class={`tile ${value !== null && value > 0 ? bad : ""}`}>
      <dt>{name}</dt>
      <dd data-tile={name}>
        <Known value={value} />
      </dd>
    </div>
  );
  const rate = (name: string, value: number | null) => (
    <div class="tile">
      <dt>{name}</dt>
      <dd data-tile={name}>{value === null ? <Unknown /> : <>{brief(value)} <small>/s</small></>}</dd>
    </div>
  );
  return (
    <dl class="tiles">
      {tile("Partitions", summary.partitions)}
      {tile("Under-replicated", summary.under_replicated, "warn")}
      {tile("Below minimum", summary.below_minimum, "bad")}
      {tile("Offline", summary.offline, "bad")}
      <div class="tile">
        <dt>Controller</dt>
        <dd>
          {controller === null || controller.state !== "watching" ? (
            <Unknown title="The controller does not report" />
          ) : (
            <>
              {controller.node_id ?? "on"} <small>epoch {controller.controller_epoch ?? "?"}</small>
            </>
          )}
        </dd>
      </div>
      {rate("Records appended", summary.records_per_s)}
      {rate("Records committed", summary.committed_per_s)}
    </dl>
  );
}

function Filters({ q, isTroubled, total }: { q: string; isTroubled: boolean; total: number }) {
  const { route, go } = useConsole();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "/" || isTyping(event.target)) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const set = (change: { [name: string]: string }) => go({ options: { ...route.options, ...change } }, true);
  return (
    <>
      <input
        ref={field}
        type="search"
        placeholder="Find a topic  ( / )"
        aria-label="Find a topic"
        value={q}
        disabled={isTroubled}
        onInput={(event) => set({ q: event.currentTarget.value })}
      />
      <span class="segmented" role="group" aria-label="Partitions shown">
        <button aria-pressed={!isTroubled} onClick={() => set({ show: "" })}>
          All
        </button>
        <button aria-pressed={isTroubled} onClick={() => set({ show: "troubled" })}>
          In trouble
        </button>
      </span>
      <span class="dim" data-testid="board-total">
        {total.toLocaleString("en-US")} {total === 1 ? "partition" : "partitions"}
        {isTroubled && total === 100 ? ": the first 100" : ""}
      </span>
    </>
  );
}

function Legend() {
  return (
    <p class="legend">
      <span>
        <span class="cell-key lead">L</span>leader
      </span>
      <span>
        <span class="cell-key">F</span>follower in sync
      </span>
      <span>
        <span class="cell-key out">F</span>out of the ISR
      </span>
      <span>
        <span class="unknown" />
        not reported now
      </span>
    </p>
  );
}

interface MatrixProps {
  readonly state: State;
  readonly total: number;
  readonly nameAt: (i: number) => Name | null;
  readonly onWindow: (first: number, count: number) => void;
}

function Matrix({ state, total, nameAt, onWindow }: MatrixProps) {
  const { route, go } = useConsole();
  const brokers = brokerIds(state);
  const [box, width] = useWidth<HTMLDivElement>(1200);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [chosen, setChosen] = useState<{ row: number; broker: number } | null>(null);
  const { columns, label, cell } = layout(width, brokers.length);
  const rows = Math.ceil(total / columns);
  const from = Math.max(0, Math.floor(top / ROW) - 4);
  const to = Math.min(rows, Math.ceil((top + height) / ROW) + 4);
  useEffect(() => onWindow(from * columns, (to - from) * columns), [from, to, columns]);
  const measure = (element: HTMLDivElement | null) => {
    if (element !== null && Math.abs(element.clientHeight - height) > 1) setHeight(element.clientHeight);
  };

  const move = (event: KeyboardEvent) => {
    const at = chosen ?? { row: 0, broker: 0 };
    const place = at.row * brokers.length + at.broker;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns * brokers.length, ArrowDown: columns * brokers.length }[event.key];
    const name = chosen === null ? null : nameAt(chosen.row);
    if (event.key === "Enter" && name !== null) go({ page: "partition", item: name.key, options: {} });
    else if (event.key === "Escape") setChosen(null);
    else if (step !== undefined) {
      const next = chosen === null ? 0 : Math.max(0, Math.min(total * brokers.length - 1, place + step));
      setChosen({ row: Math.floor(next / brokers.length), broker: next % brokers.length });
      const y = Math.floor(next / brokers.length / columns) * ROW;
      const scroller = event.currentTarget as HTMLDivElement;
      if (y < scroller.scrollTop) scroller.scrollTop = y;
      else if (y + ROW > scroller.scrollTop + scroller.clientHeight - 24) scroller.scrollTop = y + ROW + 24 - scroller.clientHeight;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const name = chosen === null ? null : nameAt(chosen.row);
  const broker = chosen === null ? undefined : brokers[chosen.broker];
  return (
    <div ref={box}>
      <div
        class="matrix card"
        role="grid"
        tabIndex={0}
        aria-label="Replicas"
        aria-rowcount={total}
        aria-activedescendant={chosen === null ? undefined : `cell-${chosen.row}-${chosen.broker}`}
        ref={measure}
        onScroll={(event) => {
          setTop(event.currentTarget.scrollTop);
          measure(event.currentTarget);
        }}
        onKeyDown={move}
      >
        <MatrixHead brokers={brokers} columns={columns} label={label} cell={cell} />
        <div style={{ height: `${rows * ROW}px`, position: "relative" }}>
          {Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i).map((row) => (
            <div key={row} class="matrix-row" style={{ top: `${row * ROW}px`, height: `${ROW}px` }}>
              {Array.from({ length: columns }, (_, column) => row * columns + column)
                .filter((index) => index < total)
                .map((index) => (
                  <Block
                    key={index}
                    state={state}
                    index={index}
                    name={nameAt(index)}
                    brokers={brokers}
                    label={label}
                    cell={cell}
                    chosen={chosen?.row === index ? chosen.broker : -1}
                    onChoose={(at) => setChosen({ row: index, broker: at })}
                  />
                ))}
            </div>
          ))}
        </div>
      </div>
      {name !== null && broker !== undefined && (
        <p class="why card" role="status" data-testid="why">
          <span>{whyNotInSync(state, name.key, broker)}</span>
          <a href={formatRoute({ ...route, page: "partition", item: name.key, options: {} })}>Open {visible(name.key)}</a>
        </p>
      )}
    </div>
  );
}

const GAP = 20;
const CELL_LEAST = 84;

/** As many blocks side by side as there is room for; the cells share what is left. */
function layout(width: number, brokers: number): { columns: number; label: number; cell: number } {
  const isNarrow = width < 500;
  const label = isNarrow ? 104 : 136;
  const inner = width - (isNarrow ? 10 : 18);
  const least = label + (isNarrow ? 60 : CELL_LEAST) * brokers;
  const columns = Math.max(1, Math.floor((inner + GAP) / (least + GAP)));
  const room = (inner + GAP) / columns - GAP - label;
  return { columns, label, cell: Math.max(isNarrow ? 60 : CELL_LEAST, Math.min(150, Math.floor(room / Math.max(1, brokers)))) };
}

function MatrixHead({ brokers, columns, label, cell }: { brokers: number[]; columns: number; label: number; cell: number }) {
  return (
    <div class="matrix-head" aria-hidden="true">
      {Array.from({ length: columns }, (_, column) => (
        <span key={column} class="block">
          <span style={{ width: `${label}px` }} />
          {brokers.map((id) => (
            <span key={id} style={{ width: `${cell}px` }}>
              {cell < 76 ? `b${id}` : `broker ${id}`}
            </span>
          ))}
        </span>
      ))}
    </div>
  );
}

interface BlockProps {
  readonly state: State;
  readonly index: number;
  readonly name: Name | null;
  readonly brokers: readonly number[];
  readonly label: number;
  readonly cell: number;
  /** The chosen broker's place in this block; -1: none. */
  readonly chosen: number;
  readonly onChoose: (place: number) => void;
}

const MARKS: { readonly [trouble in Trouble]: string } = {
  none: "",
  "under-replicated": "under-replicated",
  "below-min": "below min.insync.replicas",
  offline: "no leader",
  unknown: "unknown to the controller",
};

function Block({ state, index, name, brokers, label, cell, chosen, onChoose }: BlockProps) {
  const { route } = useConsole();
  if (name === null) {
    return (
      <span class="block faint" role="row" style={{ width: `${label + cell * brokers.length}px` }}>
        <span class="block-name">…</span>
      </span>
    );
  }
  const known = membership(state, name.key);
  const trouble = troubleOf(known);
  return (
    <span class={`block ${trouble}`} role="row" data-partition={name.key}>
      <a
        class="block-name"
        style={{ width: `${label}px` }}
        href={formatRoute({ ...route, page: "partition", item: name.key, options: {} })}
        title={`${visible(name.key)}${MARKS[trouble] === "" ? "" : `: ${MARKS[trouble]}; ISR ${listed(known.isr ?? [])}`}`}
        tabIndex={-1}
      >
        {trouble === "offline" || trouble === "below-min" ? <b class="bad">! </b> : trouble === "under-replicated" ? <b class="warn">! </b> : null}
        <bdi class="clip">{visible(name.topic)}</bdi>:{name.partition}
      </a>
      {brokers.map((id, place) => (
        <Cell
          key={id}
          id={`cell-${index}-${place}`}
          state={state}
          known={known}
          partition={name.key}
          broker={id}
          width={cell}
          isChosen={place === chosen}
          onChoose={() => onChoose(place)}
        />
      ))}
    </span>
  );
}
