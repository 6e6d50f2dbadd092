/** A rebalance as spans of time: the states of the group, and what each member owned under which epoch. */

import type { Delta, Group } from "../state/messages.ts";

export interface Sample {
  readonly time: number;
  readonly group: Group;
}

export interface Span {
  readonly from: number;
  readonly to: number;
  readonly epoch: number | null;
  readonly text: string;
}

export interface Lane {
  readonly name: string;
  readonly spans: readonly Span[];
}

/** The states of one group from `before` on, one for each delta that changed it. */
export function samplesOf(id: string, time: number, before: Group | null, deltas: readonly Delta[]): Sample[] {
  const found: Sample[] = before === null ? [] : [{ time, group: before }];
  let group = before;
  for (const delta of deltas) {
    const fields = delta.changed["groups"]?.[id];
    if (fields === undefined) continue;
    group = { ...group, ...fields } as Group;
    found.push({ time: delta.at_ms, group });
  }
  return found;
}

/** True if every member has what it is to own, under the group's epoch. */
export function isSettled(group: Group): boolean {
  if (group.state !== "Stable" && group.state !== "Empty") return false;
  return (group.members ?? []).every((member) => sameSet(member.assigned, member.target));
}

export function lanesOf(samples: readonly Sample[], until: number): Lane[] {
  const names = new Set<string>();
  for (const { group } of samples) for (const member of group.members ?? []) names.add(member.id);
  const ofGroup: Lane = {
    name: "group",
    spans: spans(samples, until, ({ group }) => ({ epoch: group.epoch, text: group.state ?? "unknown" })),
  };
  const ofMembers = [...names].map((id) => ({
    name: id,
    spans: spans(samples, until, ({ group }) => {
      const member = group.members?.find((one) => one.id === id);
      if (member === undefined) return null;
      const n = member.assigned.length;
      return { epoch: member.epoch, text: `${n} ${n === 1 ? "partition" : "partitions"}` };
    }),
  }));
  return [ofGroup, ...ofMembers];
}

type Said = { epoch: number | null; text: string };

function spans(samples: readonly Sample[], until: number, said: (sample: Sample) => Said | null): Span[] {
  const found: Span[] = [];
  samples.forEach((sample, i) => {
    const now = said(sample);
    const to = samples[i + 1]?.time ?? until;
    if (now === null) return;
    const last = found.at(-1);
    if (last !== undefined && last.to === sample.time && last.epoch === now.epoch && last.text === now.text) {
      found[found.length - 1] = { ...last, to };
    } else found.push({ from: sample.time, to, ...now });
  });
  return found;
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one) => b.includes(one));
}
