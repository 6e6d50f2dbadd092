/** One rebalance, from the recording: the group's states, and each member's partitions and epoch. */

import { useEffect, useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { clock, span, visible } from "../draw/format.ts";
import { epochFill, epochInk } from "../draw/palette.ts";
import { isSettled, type Lane, lanesOf, samplesOf } from "../draw/rebalance.ts";
import { useWidth } from "../parts/hooks.ts";
import type { Delta, TimelineEvent } from "../state/messages.ts";
import type { Scope } from "../state/source.ts";

const PAGES = 4;
const NOTHING: Scope = { kind: "window", first: 0, count: 1, q: "" };

interface Drawn {
  readonly lanes: readonly Lane[];
  readonly from: number;
  readonly to: number;
  /** Time from the event until every member has what it is to own; null: not in the recording. */
  readonly settledAfter: number | null;
}

export function RebalanceView({ group, events }: { group: string; events: readonly TimelineEvent[] }) {
  const { store } = useConsole();
  const [picked, setPicked] = useState<number | null>(null);
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  const event = events.find((one) => one.id === picked) ?? events.at(-1);
  useEffect(() => {
    let isGone = false;
    setDrawn(null);
    if (event === undefined) return;
    const load = async () => {
      const before = await store.source.at({ frame: event.frame - 1 }, NOTHING);
      const deltas: Delta[] = [];
      let after = event.frame - 1;
      let samples = samplesOf(group, before.instant.at_ms, before.state.groups[group] ?? null, deltas);
      for (let page = 0; page < PAGES; page++) {
        const more = await store.source.deltas(after, NOTHING);
        deltas.push(...more);
        samples = samplesOf(group, event.at_ms - 200, before.state.groups[group] ?? null, deltas);
        const last = more.at(-1);
        if (last === undefined) break;
        after = last.frame;
        const done = samples.findIndex(({ time, group: one }) => time > event.at_ms && isSettled(one));
        if (done >= 0) {
          samples = samples.slice(0, done + 1);
          break;
        }
      }
      const end = samples.at(-1);
      if (isGone || end === undefined) return;
      const to = end.time + Math.max(200, (end.time - event.at_ms) * 0.15);
      setDrawn({ lanes: lanesOf(samples, to), from: event.at_ms - 200, to, settledAfter: isSettled(end.group) ? Math.max(0, end.time - event.at_ms) : null });
    };
    load().catch((error: unknown) => store.fail(error));
    return () => {
      isGone = true;
    };
  }, [group, event?.id]);
  if (event === undefined) return null;
  return (
    <div class="stack rebalance">
      <span class="row">
        <select aria-label="Rebalance" value={String(event.id)} onChange={(change) => setPicked(Number(change.currentTarget.value))}>
          {[...events].reverse().map((one) => (
            <option key={one.id} value={String(one.id)}>
              {clock(one.at_ms, true)}
            </option>
          ))}
        </select>
        {drawn !== null && (
          <span class="dim">
            {drawn.settledAfter === null ? "not settled in the recording" : `settled after ${span(drawn.settledAfter)}`}
          </span>
        )}
      </span>
      {drawn !== null && <Lanes drawn={drawn} />}
    </div>
  );
}

function Lanes({ drawn }: { drawn: Drawn }) {
  const [box, width] = useWidth<HTMLDivElement>(600);
  const x = (time: number) => ((Math.max(drawn.from, time) - drawn.from) / (drawn.to - drawn.from)) * width;
  return (
    <div ref={box}>
      {drawn.lanes.map((lane) => (
        <div key={lane.name}>
          <p class="clip dim">
            <bdi>{visible(lane.name)}</bdi>
          </p>
          <svg width={width} height="20" role="img" aria-label={lane.spans.map((one) => one.text).join(", then ")}>
            {lane.spans.map((one) => {
              const w = Math.max(2, x(one.to) - x(one.from) - 1);
              return (
                <g key={one.from}>
                  <title>{`${one.text}, epoch ${one.epoch}`}</title>
                  <rect x={x(one.from)} width={w} height="18" rx="2" fill={one.epoch === null || one.epoch < 0 ? "var(--line)" : epochFill(one.epoch)} />
                  {w > 7 * `${one.text} · e${one.epoch}`.length + 10 && (
                    <text class="segment-text" x={x(one.from) + 6} y="13" fill={epochInk(one.epoch ?? 0)}>
                      {one.text} · e{one.epoch}
                    </text>
                  )}
                </g>
              );
            })}
          </svg>
        </div>
      ))}
    </div>
  );
}
