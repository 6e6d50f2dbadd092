/** Where states come from: the console's process, or the recording in this file. */

import { History } from "./history.ts";
import {
  type Delta,
  type Deltas,
  type FaultLab,
  type Keyframe,
  type LagHistory,
  MESSAGES_VERSION,
  type Meta,
  type Records,
  type Refusal,
  type Timeline,
  type TimelineEvent,
  type Trace,
} from "./messages.ts";
import { byName, nameOf, partitionNames, type World, worldOf } from "./world.ts";

/** The partitions that a page needs. */
export type Scope =
  | { readonly kind: "window"; readonly first: number; readonly count: number; readonly q: string }
  | { readonly kind: "partitions"; readonly keys: readonly string[] };

export function scopeQuery(scope: Scope): URLSearchParams {
  const query = new URLSearchParams();
  if (scope.kind === "partitions") for (const key of scope.keys) query.append("partition", key);
  else {
    query.set("first", String(scope.first));
    query.set("count", String(scope.count));
    if (scope.q !== "") query.set("q", scope.q);
  }
  return query;
}

export interface Listener {
  keyframe(world: World): void;
  delta(delta: Delta): void;
  open(): void;
  lost(): void;
}

export type Place = { readonly instant: number } | { readonly frame: number };

export interface Source {
  readonly trace: Trace | null;
  meta(): Promise<Meta>;
  at(place: Place, scope: Scope): Promise<World>;
  deltas(after: number, scope: Scope): Promise<readonly Delta[]>;
  timeline(from: number, to: number): Promise<readonly TimelineEvent[]>;
  lag(group: string, from: number, to: number): Promise<LagHistory>;
  stream(scope: Scope, listener: Listener): () => void;
}

export class RequestFailed extends Error {}

/** The answer to a request. A refusal becomes the sentence that the console gave. */
export async function ask<T>(path: string, init?: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new RequestFailed("The console's process does not answer. Start `strandline console` again.");
  }
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    const refusal = body as Refusal | null;
    throw new RequestFailed(refusal?.error ?? `The console answered ${response.status} to ${path}.`);
  }
  return body as T;
}

export class LiveSource implements Source {
  readonly trace = null;

  meta(): Promise<Meta> {
    return ask("/api/meta");
  }

  async at(place: Place, scope: Scope): Promise<World> {
    const query = scopeQuery(scope);
    if ("instant" in place) query.set("instant", String(Math.round(place.instant)));
    else query.set("frame", String(place.frame));
    return worldOf(await ask<Keyframe>(`/api/at?${query}`));
  }

  async deltas(after: number, scope: Scope): Promise<readonly Delta[]> {
    const query = scopeQuery(scope);
    query.set("after", String(after));
    query.set("limit", "400");
    return (await ask<Deltas>(`/api/deltas?${query}`)).deltas;
  }

  async timeline(from: number, to: number): Promise<readonly TimelineEvent[]> {
    const found = new Map<number, TimelineEvent>();
    let start = Math.floor(from);
    for (let pages = 0; pages < 20; pages++) {
      const part = await ask<Timeline>(`/api/timeline?from=${start}&to=${Math.ceil(to)}&limit=1000`);
      const before = found.size;
      for (const event of part.events) found.set(event.id, event);
      const last = part.events.at(-1);
      if (!part.more || last === undefined || found.size === before) break;
      start = last.at_ms;
    }
    return [...found.values()];
  }

  lag(group: string, from: number, to: number): Promise<LagHistory> {
    const query = new URLSearchParams({
      group,
      from: String(Math.floor(from)),
      to: String(Math.ceil(to)),
    });
    return ask(`/api/lag?${query}`);
  }

  stream(scope: Scope, listener: Listener): () => void {
    const events = new EventSource(`/api/stream?${scopeQuery(scope)}`);
    events.addEventListener("open", () => listener.open());
    events.addEventListener("error", () => listener.lost());
    events.addEventListener("keyframe", (event) => listener.keyframe(worldOf(JSON.parse(event.data) as Keyframe)));
    events.addEventListener("delta", (event) => listener.delta(JSON.parse(event.data) as Delta));
    return () => events.close();
  }
}

export function records(query: URLSearchParams): Promise<Records> {
  return ask(`/api/records?${query}`);
}

export function faultLab(): Promise<FaultLab> {
  return ask("/api/faults");
}

export function act<T>(path: string, token: string, body: object): Promise<T> {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });
}

/** The recording that the file carries; null if the file is the console's own page. */
export function embeddedTrace(document: Document): Trace | null {
  const element = document.getElementById("strandline-trace");
  if (element === null) return null;
  const trace = parsedTrace(element.textContent ?? "");
  if (trace.version !== MESSAGES_VERSION) {
    throw new RequestFailed(
      `This recording has version ${trace.version} (${trace.build}); the page in this file replays version` +
        ` ${MESSAGES_VERSION}. Save the recording again with one build of Strandline.`,
    );
  }
  return trace;
}

function parsedTrace(text: string): Trace {
  let found: unknown = null;
  try {
    found = JSON.parse(text);
  } catch {
    // the sentence below says it
  }
  if (typeof found !== "object" || found === null || typeof (found as Partial<Trace>).version !== "number") {
    throw new RequestFailed("The recording in this file is damaged or cut short. Save it again, or take another copy of the file.");
  }
  return found as Trace;
}

export class TraceSource implements Source {
  private readonly history: History;

  constructor(readonly trace: Trace) {
    this.history = new History(worldOf(trace.keyframe), trace.deltas);
  }

  async meta(): Promise<Meta> {
    return {
      messages_version: this.trace.version,
      build: this.trace.build,
      run: this.trace.keyframe.run,
      bootstrap: "",
      read_only: true,
      read_only_reason: "This is a recording.",
      has_tables: Object.keys(this.history.last.state.pipelines).length > 0,
      kept_ms: this.trace.to_ms - this.trace.from_ms,
    };
  }

  async at(place: Place, scope: Scope): Promise<World> {
    const world = "instant" in place ? this.history.at(place.instant) : this.history.frame(place.frame);
    return this.within(world, scope);
  }

  async deltas(after: number): Promise<readonly Delta[]> {
    return this.history.deltasAfter(after).slice(0, 2000);
  }

  async timeline(): Promise<readonly TimelineEvent[]> {
    return this.trace.events;
  }

  async lag(group: string, from: number, to: number): Promise<LagHistory> {
    const first = Math.max(from, this.trace.from_ms);
    const lags: (number | null)[] = [];
    for (let at = first; at <= Math.min(to, this.trace.to_ms); at += 1000) {
      lags.push(this.history.at(at).state.groups[group]?.lag ?? null);
    }
    return { group, first_ms: first, step_ms: 1000, lags };
  }

  stream(scope: Scope, listener: Listener): () => void {
    listener.keyframe(this.within(this.history.last, scope));
    listener.open();
    return () => undefined;
  }

  /** A recording has all partitions: only the filter of the window is applied. */
  private within(world: World, scope: Scope): World {
    const instant = {
      ...world.instant,
      oldest_ms: this.trace.from_ms,
      newest_ms: this.trace.to_ms,
    };
    if (scope.kind === "partitions" || scope.q === "") {
      const total = partitionNames(world.state).length;
      return { ...world, instant, window: { first: 0, count: total, total } };
    }
    const q = scope.q.toLowerCase();
    const keep = <T extends { topic: string }>(map: { readonly [key: string]: T }) =>
      Object.fromEntries(Object.entries(map).filter(([, one]) => one.topic.toLowerCase().includes(q)));
    const state = {
      ...world.state,
      partitions: keep(world.state.partitions),
      replicas: keep(world.state.replicas),
    };
    const total = partitionNames(state).length;
    return { instant, state, window: { first: 0, count: total, total } };
  }
}

/** Keys in the order in which the console's windows have them. */
export function sortedKeys(keys: readonly string[]): string[] {
  return keys.map(nameOf).sort(byName).map((name) => name.key);
}
