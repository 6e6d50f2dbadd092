/** One replica on the axis of offsets. */

import type { Scale } from "../draw/axis.ts";
import { clock, count, listed } from "../draw/format.ts";
import { epochFill, epochInk } from "../draw/palette.ts";
import { type Segment, segmentsOf, segmentsOfGhost } from "../draw/segments.ts";
import { Epoch, Known, Unknown } from "../parts/known.tsx";
import type { Fetcher, Ghost, Replica, Waiter } from "../state/messages.ts";

const TOP = 24;
const BAR = 20;
const GHOST = 15;
const GHOSTS_SHOWN = 3;

export interface LaneProps {
  readonly broker: number;
  readonly replica: Replica | null;
  /** True if this is the last report of a broker that is not watched. */
  readonly isStale: boolean;
  readonly isLeader: boolean;
  readonly inSync: boolean | null;
  readonly fetcher: Fetcher | null;
  readonly lag: number | null;
  readonly committed: number | null;
  readonly scale: Scale;
  readonly why: string;
}

export function Lane(props: LaneProps) {
  const { replica, scale, isStale } = props;
  const waiters = isStale ? [] : (replica?.waiters ?? []);
  const all = replica?.ghosts ?? [];
  const ghosts = all.slice(-GHOSTS_SHOWN);
  const ghostY = (row: number) => TOP + BAR + 16 + row * (GHOST + 3);
  const height = ghosts.length === 0 ? TOP + BAR + 13 : ghostY(ghosts.length);
  return (
    <section class="lane" data-testid={`lane-${props.broker}`} aria-label={`Replica on broker ${props.broker}`}>
      <LaneHead {...props} />
      <svg class="axis-box" width={scale.width} height={height} role="img" aria-label={described(props)}>
        {replica === null || replica.log_end === null ? (
          <rect x="0" y={TOP} width={scale.width} height={BAR} fill="url(#hatch)" />
        ) : (
          <g opacity={isStale ? 0.6 : 1}>
            <Bar replica={replica} scale={scale} />
            {isStale && <Clipped from={replica.log_start ?? 0} to={replica.log_end} scale={scale} fill="url(#hatch)" />}
            <Marks replica={replica} scale={scale} fetcher={props.fetcher} waiters={waiters} />
          </g>
        )}
        {props.committed !== null && isShown(props.committed, scale) && (
          <line x1={scale.x(props.committed)} x2={scale.x(props.committed)} y1="0" y2={height} stroke="var(--ink-3)" stroke-dasharray="1 3" />
        )}
        {ghosts.map((ghost, row) => (
          <GhostBar key={`${ghost.at_ms} ${ghost.start}`} ghost={ghost} scale={scale} y={ghostY(row)} />
        ))}
      </svg>
      {ghosts.length > 0 && (
        <ul class="ghosts">
          {ghosts.map((ghost) => (
            <GhostLine key={`${ghost.at_ms} ${ghost.start}`} ghost={ghost} />
          ))}
          {all.length > ghosts.length && <li class="dim">and {all.length - ghosts.length} earlier truncations</li>}
        </ul>
      )}
      {waiters.length > 0 && (
        <p class="lane-note" data-testid="waiters">
          <span class="accent" aria-hidden="true">
            ○
          </span>{" "}
          {waitersText(waiters, replica?.waiters_count ?? null)}
        </p>
      )}
      {props.inSync === false && <p class="lane-note warn">{props.why}</p>}
    </section>
  );
}

function LaneHead({ broker, replica, isStale, isLeader, inSync, fetcher, lag }: LaneProps) {
  return (
    <header class="lane-head">
      <span class="lane-chips">
        <h3>Broker {broker}</h3>
        <RoleChip role={replica?.role ?? null} isLeader={isLeader} isStale={isStale} />
        <Epoch epoch={replica?.leader_epoch} stale={isStale} />
        {inSync === null ? (
          <Unknown title="The ISR is unknown" />
        ) : (
          <span class={`chip ${inSync ? "" : "warn"}`}>{inSync ? "in sync" : "not in sync"}</span>
        )}
        {replica?.condition != null && (
          <span class="chip bad" title={replica.condition_reason ?? ""}>
            {replica.condition}
          </span>
        )}
        {replica?.healing === true && <span class="chip warn">healing</span>}
      </span>
      <dl class="offsets">
        <Offset name="start" value={replica?.log_start} stale={isStale} mark="[" />
        <Offset name="durable" value={replica?.durable} stale={isStale} mark="■" />
        <Offset name="watermark" value={replica?.high_watermark} stale={isStale} mark="▼" />
        <Offset name="end" value={replica?.log_end} stale={isStale} mark="▌" />
        {isLeader ? <div class="filler" /> : <Offset name="fetches" value={fetcher?.fetch_offset} stale={false} mark="△" />}
        {isLeader ? <div class="filler" /> : <Offset name="lag" value={lag} stale={false} />}
      </dl>
    </header>
  );
}

/** The controller's leader is the leader; another replica has the role that it reports. */
function RoleChip({ role, isLeader, isStale }: { role: Replica["role"]; isLeader: boolean; isStale: boolean }) {
  if (isLeader) return <span class="chip good">leader</span>;
  if (isStale) return <Known value={role} stale />;
  return role === null ? <Unknown title="It has not reported a role" /> : <span class="chip">{role}</span>;
}

function Offset({ name, value, stale, mark }: { name: string; value: number | null | undefined; stale: boolean; mark?: string }) {
  return (
    <div>
      <dt>
        {mark !== undefined && <i aria-hidden="true">{mark}</i>}
        {name}
      </dt>
      <dd data-offset={name}>
        <Known value={value} stale={stale} />
      </dd>
    </div>
  );
}

function Bar({ replica, scale }: { replica: Replica; scale: Scale }) {
  const end = replica.log_end ?? 0;
  const start = replica.log_start ?? 0;
  const durable = replica.durable === null ? end : Math.max(start, replica.durable);
  return (
    <>
      {segmentsOf(replica).map((segment) => (
        <SegmentBox key={segment.from} segment={segment} scale={scale} y={TOP} height={BAR} label />
      ))}
      <Clipped from={durable} to={end} scale={scale} fill="url(#volatile)" />
      {isShown(start, scale) && (
        <path d={`M${scale.x(start) + 5} ${TOP - 2}h-4v${BAR + 4}h4`} fill="none" stroke="var(--ink)" stroke-width="1.6" />
      )}
    </>
  );
}

function SegmentBox({ segment, scale, y, height, label = false }: { segment: Segment; scale: Scale; y: number; height: number; label?: boolean }) {
  const from = Math.max(0, scale.x(segment.from));
  const to = Math.min(scale.width, scale.x(segment.to));
  if (to <= 0 || from >= scale.width || to <= from) return null;
  const { epoch } = segment;
  return (
    <>
      <rect x={from} y={y} width={Math.max(1, to - from - 0.75)} height={height} rx="1.5" fill={epoch === null ? "url(#hatch)" : epochFill(epoch)} />
      {label && epoch !== null && to - from > 24 && (
        <text x={from + 8} y={y + height / 2 + 4} class="segment-text" fill={epochInk(epoch)}>
          e{epoch}
        </text>
      )}
    </>
  );
}

function Clipped({ from, to, scale, fill }: { from: number; to: number; scale: Scale; fill: string }) {
  const left = Math.max(0, scale.x(from));
  const right = Math.min(scale.width, scale.x(to));
  return right > left ? <rect x={left} y={TOP} width={right - left} height={BAR} fill={fill} /> : null;
}

function isShown(offset: number, scale: Scale): boolean {
  return offset >= scale.from && offset <= scale.to;
}

interface MarksProps {
  readonly replica: Replica;
  readonly scale: Scale;
  readonly fetcher: Fetcher | null;
  readonly waiters: readonly Waiter[];
}

function Marks({ replica, scale, fetcher, waiters }: MarksProps) {
  const { durable, high_watermark: watermark, log_end: end } = replica;
  const fetch = fetcher?.fetch_offset ?? null;
  const bottom = TOP + BAR;
  return (
    <>
      {end !== null && isShown(end, scale) && <rect x={scale.x(end) - 1.5} y={TOP - 2} width="3" height={BAR + 4} fill="var(--ink)" />}
      {durable !== null && isShown(durable, scale) && (
        <rect x={scale.x(durable) - 3.5} y={bottom - 7} width="7" height="7" fill="var(--ink)" stroke="var(--sheet)" stroke-width="1" />
      )}
      {watermark !== null && isShown(watermark, scale) && (
        <path data-testid="watermark" d={`M${scale.x(watermark)} ${TOP - 1}l-5.5 -9h11z`} fill="var(--ink)" />
      )}
      {fetch !== null && isShown(fetch, scale) && (
        <path d={`M${scale.x(fetch)} ${bottom + 2}l-5 9h10z`} fill="var(--sheet)" stroke="var(--ink)" stroke-width="1.6" />
      )}
      {waiters.map((waiter) => (
        <WaiterPin key={`${waiter.kind} ${waiter.offset}`} waiter={waiter} scale={scale} />
      ))}
    </>
  );
}

function WaiterPin({ waiter, scale }: { waiter: Waiter; scale: Scale }) {
  if (!isShown(waiter.offset, scale)) return null;
  const x = scale.x(waiter.offset);
  return (
    <g data-testid="waiter">
      <title>{`${waiter.count} ${waiter.count === 1 ? "caller waits" : "callers wait"} ${WAITS[waiter.kind]} ${waiter.offset}`}</title>
      <line x1={x} x2={x} y1="6" y2={TOP + BAR} stroke="var(--accent)" stroke-width="1.2" stroke-dasharray="2 2" />
      <circle cx={x} cy="6" r="4" fill="var(--sheet)" stroke="var(--accent)" stroke-width="1.6" />
    </g>
  );
}

function GhostBar({ ghost, scale, y }: { ghost: Ghost; scale: Scale; y: number }) {
  const left = Math.max(0, scale.x(ghost.start));
  const right = Math.min(scale.width, scale.x(ghost.end));
  if (right <= left) return null;
  const lost = ghost.acknowledged === true;
  return (
    <g data-testid="ghost">
      <g opacity="0.45">
        {segmentsOfGhost(ghost).map((segment) => (
          <SegmentBox key={segment.from} segment={segment} scale={scale} y={y} height={GHOST} />
        ))}
      </g>
      <rect
        x={left + 0.7}
        y={y + 0.7}
        width={Math.max(2, right - left - 2)}
        height={GHOST - 1.4}
        rx="2"
        fill="none"
        stroke={lost ? "var(--bad)" : "var(--ink-2)"}
        stroke-width="1.4"
        stroke-dasharray="4 3"
      />
      {right - left > 54 && (
        <text x={left + 8} y={y + 11.5} class="ghost-text">
          {epochsOf(ghost)} cut off
        </text>
      )}
    </g>
  );
}

function epochsOf(ghost: Ghost): string {
  return ghost.epochs.map(([epoch]) => `e${epoch}`).join(" ");
}

const REASONS: { readonly [reason: string]: string } = {
  diverged: "its history diverged from the leader's",
  high_watermark: "cut at its own watermark (replica.truncation=high-watermark)",
  before_leader_start: "it ended before the leader's log begins",
  damage: "cut before damage",
};

function GhostLine({ ghost }: { ghost: Ghost }) {
  const length = ghost.end - ghost.start;
  const what = length === 1 ? `Offset ${count(ghost.start)}` : `Offsets ${count(ghost.start)} to ${count(ghost.end - 1)}`;
  return (
    <li data-testid="ghost-line" class="lane-note">
      <i class="dashed" aria-hidden="true" /> {what} cut off at {clock(ghost.at_ms)}: {REASONS[ghost.reason] ?? ghost.reason}.{" "}
      <span class="nowrap">
        Was acknowledged:{" "}
        {ghost.acknowledged === null ? (
          <Unknown title="The replica cannot know" />
        ) : (
          <b class={ghost.acknowledged ? "bad" : ""}>{ghost.acknowledged ? "yes" : "no"}</b>
        )}
      </span>
    </li>
  );
}

const WAITS: { readonly [kind in Waiter["kind"]]: string } = {
  produce: "for the watermark to reach",
  flush: "for durability to reach",
  delete_records: "for every log start to reach",
  fetch: "to read from",
  group: "in the group coordinator, for the watermark to reach",
};

function waitersText(waiters: readonly Waiter[], total: number | null): string {
  const kinds = [...new Set(waiters.map((one) => one.kind))];
  const parts = kinds.map((kind) => {
    const of = waiters.filter((one) => one.kind === kind);
    const at = of.slice(0, 6).map((one) => `${count(one.offset)}${one.count > 1 ? ` (${one.count} callers)` : ""}`);
    return `${WAITS[kind]} ${listed(at)}${of.length > 6 ? " …" : ""}`;
  });
  const all = total ?? waiters.reduce((sum, one) => sum + one.count, 0);
  return `${count(all)} ${all === 1 ? "caller waits" : "callers wait"} ${parts.join("; ")}.`;
}

function described({ broker, replica }: LaneProps): string {
  if (replica === null || replica.log_end === null) return `Broker ${broker}: no report`;
  return `Broker ${broker}: log from ${replica.log_start} to ${replica.log_end}, watermark ${replica.high_watermark}`;
}
