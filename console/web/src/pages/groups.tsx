/** Groups: who owns what, under which epoch, how far behind, and how the last rebalance went. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { brief, clock, count, visible } from "../draw/format.ts";
import { partOf } from "../draw/paging.ts";
import { Chart } from "../parts/chart.tsx";
import { EventList } from "../parts/events.tsx";
import { useScope } from "../parts/hooks.ts";
import { Empty, Epoch, Known, Unknown } from "../parts/known.tsx";
import { Pager } from "../parts/pager.tsx";
import type { Group, LagHistory, Member, State } from "../state/messages.ts";
import { formatRoute } from "../state/route.ts";
import { byName, isCurrent, type Name, nameOf } from "../state/world.ts";
import { RebalanceView } from "./rebalance.tsx";

export function Groups() {
  const { store, route } = useConsole();
  useScope({ kind: "window", first: 0, count: 1, q: "" });
  const { state } = store.shown;
  const groups = Object.values(state.groups).sort((a, b) => (a.id < b.id ? -1 : 1));
  const chosen = state.groups[route.item] ?? (route.item === "" ? groups[0] : undefined);
  return (
    <>
      <div class="head">
        <h1>Groups</h1>
        <p>{groups.length === 0 ? "" : `${count(groups.length)} ${groups.length === 1 ? "group" : "groups"}`}</p>
      </div>
      {groups.length === 0 ? (
        <Empty title="No group is known">
          No coordinator has reported one. A group appears here when its first member joins.
        </Empty>
      ) : (
        <div class="split">
          <nav class="card side" aria-label="Groups">
            {groups.map((group) => (
              <a
                key={group.id}
                href={formatRoute({ ...route, item: group.id })}
                aria-current={group.id === chosen?.id ? "true" : undefined}
              >
                <bdi class="clip">{visible(group.id)}</bdi>
                <span class="dim nowrap">
                  <Known value={group.state} stale={isGone(state, group)} />
                </span>
                <span class="num dim" title="lag">
                  {group.lag === null ? <Unknown /> : brief(group.lag)}
                </span>
              </a>
            ))}
          </nav>
          {chosen === undefined ? <Empty title={`No coordinator has reported ${visible(route.item)}`} /> : <GroupView key={chosen.id} state={state} group={chosen} />}
        </div>
      )}
    </>
  );
}

function isGone(state: State, group: Group): boolean {
  return group.coordinator === null || !isCurrent(state, group.coordinator);
}

function GroupView({ state, group }: { state: State; group: Group }) {
  const { store } = useConsole();
  const gone = isGone(state, group);
  const events = store.events.filter((event) => event.group === group.id && event.at_ms <= (store.at ?? Infinity));
  return (
    <div class="stack">
      <section class="card" data-testid="group">
        <div class="head">
          <h2>
            <bdi>{visible(group.id)}</bdi>
          </h2>
          <span class="chip">
            <Known value={group.state} stale={gone} />
          </span>
          <span class="facts">
            <span>
              epoch <Epoch epoch={group.epoch} />
            </span>
            {group.assignment_epoch !== group.epoch && (
              <span>
                assignment <Epoch epoch={group.assignment_epoch} />
              </span>
            )}
            <span class="dim">{group.kind ?? "kind unknown"}</span>
            {group.assignor !== null && group.assignor !== "" && <span class="dim">{group.assignor}</span>}
            <span>
              coordinator <Known value={group.coordinator} /> {gone && <span class="warn">does not report now</span>}
            </span>
            <span>
              lag <b><Known value={group.lag} /></b>
            </span>
          </span>
        </div>
        <Assignment group={group} />
      </section>
      <LagCard group={group.id} />
      <section class="card">
        <h2>Rebalances</h2>
        <RebalanceView group={group.id} events={events.filter((event) => event.kind === "rebalance")} />
        <EventList events={events} most={8} />
      </section>
    </div>
  );
}

const PARTITIONS = 50;
const MEMBERS = 100;

/** The partitions of a group, in order. They are sorted again when the set of them has changed: commits come often. */
function useNames(group: Group): readonly Name[] {
  const known = useRef<{ readonly keys: ReadonlySet<string>; readonly names: readonly Name[] }>({ keys: new Set(), names: [] });
  return useMemo(() => {
    const keys = new Set<string>(Object.keys(group.offsets ?? {}));
    for (const member of group.members ?? []) for (const key of [...member.assigned, ...member.target]) keys.add(key);
    const before = known.current;
    if (keys.size !== before.keys.size || ![...keys].every((key) => before.keys.has(key))) {
      known.current = { keys, names: [...keys].map(nameOf).sort(byName) };
    }
    return known.current.names;
  }, [group.offsets, group.members]);
}

/** Members × partitions; below, what is committed and what remains. Both are shown in parts. */
function Assignment({ group }: { group: Group }) {
  const { route, go } = useConsole();
  const names = useNames(group);
  const members = group.members ?? [];
  const owners = useMemo(() => members.map((member) => ({ member, has: new Set(member.assigned), will: new Set(member.target) })), [group.members]);
  const q = (route.options["q"] ?? "").toLowerCase();
  const matching = useMemo(() => (q === "" ? names : names.filter((name) => name.topic.toLowerCase().includes(q))), [names, q]);
  if (group.members === null) return <p class="dim">Members: <Unknown /></p>;
  if (names.length === 0) {
    return <p class="dim">{members.length === 0 ? "No members, nothing committed." : `${members.length} members own no partition, and nothing is committed.`}</p>;
  }
  const across = partOf(matching.length, Number(route.options["first"] ?? 0), PARTITIONS);
  const down = partOf(members.length, Number(route.options["member"] ?? 0), MEMBERS);
  const set = (change: { [name: string]: string }) => go({ options: { ...route.options, ...change } }, true);
  const shown = matching.slice(across.first, across.end);
  return (
    <>
      {names.length > PARTITIONS && (
        <div class="row">
          <input type="search" placeholder="Find a topic" aria-label="Find a topic" value={route.options["q"] ?? ""} onInput={(event) => set({ q: event.currentTarget.value, first: "" })} />
          <Pager part={across} size={PARTITIONS} what="partitions" onGo={(first) => set({ first: String(first) })} />
        </div>
      )}
      <Pager part={down} size={MEMBERS} what="members" onGo={(member) => set({ member: String(member) })} />
      {shown.length === 0 ? <p class="dim">No topic of the group has “{route.options["q"]}” in its name.</p> : <AssignmentTable group={group} names={shown} owners={owners.slice(down.first, down.end)} />}
    </>
  );
}

interface Owner {
  readonly member: Member;
  readonly has: ReadonlySet<string>;
  readonly will: ReadonlySet<string>;
}

function AssignmentTable({ group, names, owners }: { group: Group; names: readonly Name[]; owners: readonly Owner[] }) {
  const topics = [...new Set(names.map((name) => name.topic))];
  return (
    <div class="scroll">
      <table class="assign">
        <thead>
          <tr>
            <th rowSpan={2}>member</th>
            <th rowSpan={2}>epoch</th>
            {topics.map((topic) => (
              <th key={topic} colSpan={names.filter((name) => name.topic === topic).length} class="topic-head">
                <bdi>{visible(topic)}</bdi>
              </th>
            ))}
          </tr>
          <tr>
            {names.map((name) => (
              <th key={name.key} class="p">
                {name.partition}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {owners.map((owner) => (
            <tr key={owner.member.id}>
              <td class="clip member" title={`${visible(owner.member.id)} on ${visible(owner.member.client_host)}`}>
                <bdi>{visible(labelOf(owner.member, group.members ?? []))}</bdi>
              </td>
              <td>
                <Epoch epoch={owner.member.epoch} />
              </td>
              {names.map((name) => (
                <Owned key={name.key} owner={owner} partition={name.key} />
              ))}
            </tr>
          ))}
          <Sums group={group} names={names} />
        </tbody>
      </table>
      <p class="legend">
        <span>
          <span class="own key">●</span>owned
        </span>
        <span>
          <span class="own soon key">+</span>to be given
        </span>
        <span>
          <span class="own going key">−</span>to be given up
        </span>
      </p>
    </div>
  );
}

function Sums({ group, names }: { group: Group; names: readonly Name[] }) {
  return (
    <>
      <tr class="sums">
        <td colSpan={2}>committed</td>
        {names.map((name) => {
          const commit = group.offsets?.[name.key];
          return (
            <td key={name.key} class="p" title={commit === undefined ? "" : `${count(commit.offset)}${commit.at_ms === null ? "" : `, ${clock(commit.at_ms)}`}`}>
              {commit === undefined ? <span class="faint">–</span> : brief(commit.offset)}
            </td>
          );
        })}
      </tr>
      <tr class="sums">
        <td colSpan={2}>lag</td>
        {names.map((name) => {
          const commit = group.offsets?.[name.key];
          return (
            <td key={name.key} class={`p ${(commit?.lag ?? 0) > 0 ? "b" : ""}`}>
              {commit === undefined ? <span class="faint">–</span> : commit.lag === null ? <Unknown /> : brief(commit.lag)}
            </td>
          );
        })}
      </tr>
    </>
  );
}

/** A name by which a reader tells members apart: the client's, with the start of the id if two share it. */
function labelOf(member: Member, all: readonly Member[]): string {
  if (member.instance_id !== null) return member.instance_id;
  if (member.client_id === "") return member.id;
  const isShared = all.some((one) => one.id !== member.id && one.client_id === member.client_id);
  return isShared ? `${member.client_id} ${member.id.slice(0, 6)}` : member.client_id;
}

function Owned({ owner, partition }: { owner: Owner; partition: string }) {
  const has = owner.has.has(partition);
  const will = owner.will.has(partition);
  if (!has && !will) return <td class="p" />;
  const [kind, mark, said] = has ? (will ? ["", "●", "owns"] : ["going", "−", "is to give up"]) : ["soon", "+", "is to get"];
  return (
    <td class="p">
      <span class={`own ${kind}`} title={`${said} ${partition}`}>
        {mark}
        <span class="sr">{said}</span>
      </span>
    </td>
  );
}

function LagCard({ group }: { group: string }) {
  const { store } = useConsole();
  const [lag, setLag] = useState<LagHistory | null>(null);
  const second = Math.floor(store.newest / 2000);
  useEffect(() => {
    let isGone = false;
    const kept = store.meta?.kept_ms ?? 900_000;
    store.source.lag(group, Math.max(store.oldest, store.newest - kept), store.newest).then(
      (found) => {
        if (!isGone) setLag(found);
      },
      (error: unknown) => {
        if (!isGone) store.fail(error);
      },
    );
    return () => {
      isGone = true;
    };
  }, [group, second]);
  return (
    <section class="card">
      <h2>Lag</h2>
      {lag === null || lag.lags.length === 0 ? (
        <p class="dim">No lag is recorded yet.</p>
      ) : (
        <Chart first={lag.first_ms} step={lag.step_ms} values={lag.lags} at={store.at} label={`Lag of ${group} over time`} />
      )}
    </section>
  );
}
