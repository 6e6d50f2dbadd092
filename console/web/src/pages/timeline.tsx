/** Everything that happened in fifteen minutes, on tracks; a part of it is saved as one file. */

import { useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { clock, count, span } from "../draw/format.ts";
import { movedTo, type Selected } from "../draw/selection.ts";
import { type Track, TRACKS, trackOf } from "../draw/tracks.ts";
import { EventList } from "../parts/events.tsx";
import { useKeys, useScope, useWidth } from "../parts/hooks.ts";
import type { TimelineEvent } from "../state/messages.ts";

const ROW = 30;
const LEFT = 92;

export function TimelinePage() {
  const { store, route } = useConsole();
  useScope({ kind: "window", first: 0, count: 1, q: "" });
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = useState<TimelineEvent | null>(null);
  const selection = selectionOf(route.options);
  const events = store.events.filter((event) => !hidden.has(trackOf(event).name));
  const within = selection === null ? events : events.filter((event) => event.at_ms >= selection.from && event.at_ms <= selection.to);
  const listed = store.at === null ? within : within.filter((event) => event.at_ms <= (store.at ?? Infinity));
  const toggle = (name: string) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
  };
  return (
    <>
      <div class="head">
        <h1>Timeline</h1>
        <p>
          {count(store.events.length)} events in {span(store.newest - store.oldest)}
        </p>
        <span class="space" />
        <Selection selection={selection} />
      </div>
      <div class="stack">
        <section class="card">
          <Tracks events={events} selection={selection} hidden={hidden} onToggle={toggle} onChoose={setChosen} />
          {chosen !== null && <Chosen event={chosen} />}
        </section>
        <section class="card">
          <h2>{selection === null ? (store.at === null ? "Events" : `Events until ${clock(store.at, true)}`) : "Events of the selection"}</h2>
          <EventList events={listed} most={200} />
        </section>
      </div>
    </>
  );
}

function selectionOf(options: { readonly [name: string]: string }): Selected | null {
  const from = Number(options["from"]);
  const to = Number(options["to"]);
  return Number.isFinite(from) && Number.isFinite(to) && from > 0 && to > from ? { from, to } : null;
}

function Selection({ selection }: { selection: Selected | null }) {
  const { store, go } = useConsole();
  const here = (side: "begin" | "end") => set(movedTo(side, store.at ?? store.newest, selection, { from: store.oldest, to: store.newest }));
  useKeys({ "[": () => here("begin"), "]": () => here("end"), Escape: () => selection !== null && set(null) });
  const set = (range: Selected | null) =>
    go({ options: range === null ? {} : { from: String(Math.round(range.from)), to: String(Math.round(range.to)) } }, true);
  const last = (minutes: number) => set({ from: Math.max(store.oldest, store.newest - minutes * 60_000), to: store.newest });
  const isRecording = store.source.trace !== null;
  return (
    <span class="row" data-testid="selection">
      <button onClick={() => here("begin")} title="Begin at the shown instant ([)">
        from here
      </button>
      <button onClick={() => here("end")} title="End at the shown instant (])">
        to here
      </button>
      {selection === null ? (
        <>
          <span class="dim">Select by a drag over the tracks, or</span>
          <button onClick={() => last(1)}>last minute</button>
          <button onClick={() => last(15)}>all</button>
        </>
      ) : (
        <>
          <span>
            {clock(selection.from)} to {clock(selection.to)} <span class="dim">({span(selection.to - selection.from)})</span>
          </span>
          <button onClick={() => set(null)} title="Clear (Escape)">
            Clear
          </button>
          {!isRecording && (
            <a class="button" download href={`/api/trace?from=${Math.floor(selection.from)}&to=${Math.ceil(selection.to)}`}>
              Save as HTML
            </a>
          )}
        </>
      )}
    </span>
  );
}

interface TracksProps {
  readonly events: readonly TimelineEvent[];
  readonly selection: Selected | null;
  readonly hidden: ReadonlySet<string>;
  readonly onToggle: (name: string) => void;
  readonly onChoose: (event: TimelineEvent) => void;
}

function Tracks({ events, selection, hidden, onToggle, onChoose }: TracksProps) {
  const { store, go } = useConsole();
  const [box, width] = useWidth<HTMLDivElement>(1000);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const left = width < 500 ? 78 : LEFT;
  const to = store.newest;
  const from = Math.min(store.oldest, to - 1000);
  const inner = width - left - 8;
  const x = (time: number) => left + ((Math.max(from, Math.min(to, time)) - from) / (to - from)) * inner;
  const timeAt = (clientX: number, element: Element) => {
    const part = (clientX - element.getBoundingClientRect().left - left) / inner;
    return from + Math.max(0, Math.min(1, part)) * (to - from);
  };
  const height = TRACKS.length * ROW + 24;
  const end = () => {
    if (drag === null) return;
    const range = { from: Math.min(drag.from, drag.to), to: Math.max(drag.from, drag.to) };
    setDrag(null);
    if (x(range.to) - x(range.from) > 5) go({ options: { from: String(Math.round(range.from)), to: String(Math.round(range.to)) } }, true);
    else go({ at: Math.round(range.from) }, true);
  };
  const marked = drag === null ? selection : { from: Math.min(drag.from, drag.to), to: Math.max(drag.from, drag.to) };
  const at = store.at ?? to;
  return (
    <div ref={box} class="tracks">
      <svg
        width={width}
        height={height}
        role="group"
        aria-label="Events by track"
        onPointerDown={(event) => {
          if ((event.target as Element).closest("[data-event], button") !== null) return;
          const time = timeAt(event.clientX, event.currentTarget);
          setDrag({ from: time, to: time });
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => drag !== null && setDrag({ ...drag, to: timeAt(event.clientX, event.currentTarget) })}
        onPointerUp={end}
      >
        {marked !== null && <rect x={x(marked.from)} width={Math.max(1, x(marked.to) - x(marked.from))} y="0" height={height - 20} fill="var(--accent-soft)" />}
        {TRACKS.map((track, row) => (
          <TrackLine
            key={track.name}
            track={track}
            y={row * ROW}
            left={left}
            width={width}
            isHidden={hidden.has(track.name)}
            onToggle={() => onToggle(track.name)}
          />
        ))}
        {marksOf(events, x).map((events) => (
          <Mark key={events[0].id} events={events} x={x(events[0].at_ms)} isLater={store.at !== null && events[0].at_ms > store.at} onChoose={onChoose} />
        ))}
        <line x1={x(at)} x2={x(at)} y1="0" y2={height - 18} stroke={store.isLive ? "var(--accent)" : "var(--warn)"} stroke-width="1.6" pointer-events="none" />
        <TimeAxis from={from} to={to} x={x} y={height - 4} width={width} />
      </svg>
    </div>
  );
}

function TrackLine({ track, y, left, width, isHidden, onToggle }: { track: Track; y: number; left: number; width: number; isHidden: boolean; onToggle: () => void }) {
  return (
    <>
      <line x1={left} x2={width - 8} y1={y + ROW / 2} y2={y + ROW / 2} stroke="var(--line)" />
      <foreignObject x="0" y={y + 2} width={left} height={ROW - 4}>
        <button class={`plain track-name ${isHidden ? "hidden" : ""}`} aria-pressed={!isHidden} title={isHidden ? "Show" : "Hide"} onClick={onToggle}>
          {track.name}
        </button>
      </foreignObject>
    </>
  );
}

type Marked = readonly [TimelineEvent, ...TimelineEvent[]];

/** Events of one track that would cover each other, together. */
function marksOf(events: readonly TimelineEvent[], x: (time: number) => number): Marked[] {
  const found: [TimelineEvent, ...TimelineEvent[]][] = [];
  const last = new Map<string, [TimelineEvent, ...TimelineEvent[]]>();
  for (const event of events) {
    const { name } = trackOf(event);
    const mark = last.get(name);
    if (mark !== undefined && x(event.at_ms) - x(mark[0].at_ms) < 8) mark.push(event);
    else {
      const fresh: [TimelineEvent] = [event];
      found.push(fresh);
      last.set(name, fresh);
    }
  }
  return found;
}

interface MarkProps {
  readonly events: Marked;
  readonly x: number;
  readonly isLater: boolean;
  readonly onChoose: (event: TimelineEvent) => void;
}

function Mark({ events, x, isLater, onChoose }: MarkProps) {
  const { go } = useConsole();
  const [first, ...rest] = events;
  const track = trackOf(first);
  const y = TRACKS.findIndex((one) => one.name === track.name) * ROW + ROW / 2;
  const pick = () => {
    onChoose(first);
    go({ at: first.at_ms }, true);
  };
  const said = `${first.sentence}${rest.length > 0 ? ` And ${rest.length} more.` : ""}`;
  return (
    <g
      data-event={first.id}
      role="button"
      tabindex={0}
      aria-label={`${clock(first.at_ms)} ${said}`}
      class={isLater ? "mark later" : "mark"}
      onClick={pick}
      onKeyDown={(press) => {
        if (press.key === "Enter" || press.key === " ") pick();
      }}
    >
      <title>{`${clock(first.at_ms, true)}  ${said}`}</title>
      {track.grave ? <path d={`M${x} ${y - 7}l6 7 -6 7 -6 -7z`} fill="var(--bad)" /> : <circle cx={x} cy={y} r="4.5" fill="var(--ink-2)" />}
      {rest.length > 0 && (
        <text x={x + 9} y={y - 4}>
          {events.length}
        </text>
      )}
    </g>
  );
}

function TimeAxis({ from, to, x, y, width }: { from: number; to: number; x: (t: number) => number; y: number; width: number }) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300].map((s) => s * 1000);
  const most = Math.max(2, width / 110);
  const step = steps.find((one) => (to - from) / one <= most) ?? 300_000;
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return (
    <>
      {found.map((at) => (
        <text key={at} x={x(at)} y={y} text-anchor={x(at) > width - 40 ? "end" : "middle"} class="tick">
          {clock(at)}
        </text>
      ))}
    </>
  );
}

function Chosen({ event }: { event: TimelineEvent }) {
  const details = Object.entries(event.details);
  return (
    <div class="picked" role="status">
      <p>
        <b>{clock(event.at_ms, true)}</b> {event.sentence}
      </p>
      <dl class="pairs">
        {event.server !== null && (
          <div>
            <dt>reported by</dt>
            <dd>
              {event.server}
              {event.sequence === null ? "" : `, number ${event.sequence}`}
            </dd>
          </div>
        )}
        {details.map(([name, value]) => (
          <div key={name}>
            <dt>{name.replaceAll("_", " ")}</dt>
            <dd>{String(value)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
