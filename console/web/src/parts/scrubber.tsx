/** The last fifteen minutes at the foot of every page. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { pauseOrPlay, stepBy, useConsole } from "../app.tsx";
import { clock, span } from "../draw/format.ts";
import { TRACKS, trackOf } from "../draw/tracks.ts";
import type { TimelineEvent } from "../state/messages.ts";

export function Scrubber() {
  const context = useConsole();
  const { store, go } = context;
  const now = store.at ?? store.newest;
  const isRecording = store.source.trace !== null;
  const label = store.isLive ? "Pause" : store.playing ? "Pause" : "Play";
  return (
    <footer class={`foot ${store.isLive ? "" : "past"}`} aria-label="Time">
      <span class="row" style={{ flexWrap: "nowrap" }}>
        <button class="icon" title="One change back (,)" aria-label="One change back" onClick={() => stepBy(context, -1)}>
          <Icon d="M4 3v10M13 3 7 8l6 5z" />
        </button>
        <button class="icon" title={`${label} (k)`} aria-label={label} onClick={() => pauseOrPlay(context)}>
          <Icon d={label === "Pause" ? "M5 3v10M11 3v10" : "M5 3l8 5-8 5z"} />
        </button>
        <button class="icon" title="One change forth (.)" aria-label="One change forth" disabled={store.isLive} onClick={() => stepBy(context, 1)}>
          <Icon d="M12 3v10M3 3l6 5-6 5z" />
        </button>
        {!isRecording && (
          <button title="Live (l)" aria-pressed={store.isLive} onClick={() => go({ at: null })}>
            Live
          </button>
        )}
        <select
          aria-label="Speed"
          class={store.isLive ? "gone" : ""}
          value={String(store.speed)}
          onChange={(event) => {
            store.speed = Number(event.currentTarget.value);
          }}
        >
          <option value="0.1">0.1×</option>
          <option value="0.5">0.5×</option>
          <option value="1">1×</option>
          <option value="4">4×</option>
          <option value="16">16×</option>
        </select>
      </span>
      <Track />
      <span class="when nowrap" data-testid="instant">
        <b>{now === 0 ? "no event yet" : clock(now, !store.isLive)}</b>
        <span class="dim"> {store.isLive ? "live" : isRecording ? "" : `${span(store.newest - now)} ago`}</span>
      </span>
    </footer>
  );
}

function Icon({ d }: { d: string }) {
  return (
    <svg width="14" height="16" viewBox="0 0 16 16" aria-hidden="true" fill="currentColor" stroke="currentColor" stroke-width="2" stroke-linejoin="round">
      <path d={d} />
    </svg>
  );
}

const STEP_MS = 1000;

function Track() {
  const { store, go } = useConsole();
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  const [isDragging, setDragging] = useState(false);
  useEffect(() => {
    if (box.current === null) return;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.max(60, entry?.contentRect.width ?? 600)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  // A step of a second, so that the marks of up to 20,000 events are not drawn with each frame.
  const to = Math.ceil(store.newest / STEP_MS) * STEP_MS;
  const from = Math.min(to - STEP_MS, Math.max(store.oldest, to - (store.meta?.kept_ms ?? 900_000)));
  const x = (time: number) => ((time - from) / (to - from)) * (width - 8) + 4;
  const at = store.at ?? store.newest;
  const marks = useMemo(() => <Marks events={store.events} x={x} from={from} />, [store.events, from, to, width]);
  // The store moves at once: the next key counts from there.
  const show = (time: number | null) => {
    store.go(time);
    go({ at: store.at }, true);
  };
  const seek = (clientX: number) => {
    const left = box.current?.getBoundingClientRect().left ?? 0;
    const part = (clientX - left - 4) / (width - 8);
    show(Math.round(from + Math.max(0, Math.min(1, part)) * (to - from)));
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1000, ArrowRight: 1000, PageUp: -30_000, PageDown: 30_000 }[event.key];
    if (step !== undefined) show(Math.max(from, (store.at ?? store.newest) + step * (event.shiftKey ? 10 : 1)));
    else if (event.key === "Home") show(from);
    else if (event.key === "End") show(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="track" ref={box}>
      <svg
        role="slider"
        tabindex={0}
        aria-label="Instant"
        aria-valuemin={from}
        aria-valuemax={to}
        aria-valuenow={at}
        aria-valuetext={store.isLive ? "live" : clock(at, true)}
        onKeyDown={key}
        onPointerDown={(event) => {
          setDragging(true);
          event.currentTarget.setPointerCapture(event.pointerId);
          seek(event.clientX);
        }}
        onPointerMove={(event) => isDragging && seek(event.clientX)}
        onPointerUp={() => setDragging(false)}
      >
        <rect x="0" y="0" width={width} height="34" fill="var(--sunk)" />
        {marks}
        {store.meta !== null && from > store.oldest + 1 ? null : <line x1={x(Math.max(from, store.oldest))} x2={x(Math.max(from, store.oldest))} y1="0" y2="34" stroke="var(--line-strong)" />}
        <line x1={x(at)} x2={x(at)} y1="0" y2="34" stroke={store.isLive ? "var(--accent)" : "var(--warn)"} stroke-width="2" />
        <circle cx={x(at)} cy="17" r="4.5" fill={store.isLive ? "var(--accent)" : "var(--warn)"} />
      </svg>
    </div>
  );
}

function Marks({ events, x, from }: { events: readonly TimelineEvent[]; x: (t: number) => number; from: number }) {
  const drawn = new Set<string>();
  return (
    <>
      {events.map((event) => {
        const track = trackOf(event);
        const row = TRACKS.findIndex((one) => one.name === track.name);
        const at = Math.round(x(event.at_ms));
        const place = `${row} ${at}`;
        if (event.at_ms < from || drawn.has(place)) return null;
        drawn.add(place);
        return <rect key={event.id} x={at - 1} y={3 + row * 4} width="2" height="4" fill={track.grave ? "var(--bad)" : "var(--ink-2)"} />;
      })}
    </>
  );
}
