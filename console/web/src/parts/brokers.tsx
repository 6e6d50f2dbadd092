/** One line for each broker: is it there, fenced, how old is its heartbeat, its disks, its rates. */

import { bytes, span } from "../draw/format.ts";
import type { Server, State } from "../state/messages.ts";
import { heartbeatAge } from "../state/why.ts";
import { controllerOf } from "../state/world.ts";
import { Unknown } from "./known.tsx";

export function BrokerStrip({ state }: { state: State }) {
  const brokers = Object.values(state.servers)
    .filter((one) => one.kind === "broker")
    .sort((a, b) => (a.node_id ?? 0) - (b.node_id ?? 0));
  return (
    <ul class="brokers">
      {brokers.map((server) => (
        <BrokerLine key={server.id} state={state} server={server} />
      ))}
    </ul>
  );
}

function BrokerLine({ state, server }: { state: State; server: Server }) {
  const isWatched = server.state === "watching";
  const isKnown = controllerOf(state)?.state === "watching";
  const age = isKnown ? heartbeatAge(state, server) : null;
  const disks = server.directories?.filter((one) => one.condition !== "ok") ?? [];
  const word = said(server);
  return (
    <li data-testid={server.id} data-state={server.state}>
      <span class={`dot ${isWatched && word !== "fenced" ? "on" : "off"}`} />
      <b>Broker {server.node_id}</b>
      <span class={word === "running" ? "dim" : "warn"}>{word}</span>
      <span class="dim nowrap">heartbeat {age === null ? <Unknown title="The controller does not report it" /> : span(age)}</span>
      {isWatched && (
        <span class="dim nowrap">
          in {server.bytes_in_per_s === null ? <Unknown /> : `${bytes(Math.round(server.bytes_in_per_s))}/s`}
        </span>
      )}
      {isWatched && disks.map((disk) => (
        <span key={disk.path} class="bad" title={disk.reason ?? ""}>
          disk {disk.condition}
        </span>
      ))}
    </li>
  );
}

function said(server: Server): string {
  if (server.state === "without_watch") return "without Watch";
  if (server.fenced === true) return "fenced";
  if (server.state === "absent") return "not reached";
  if (server.state === "connecting") return "connecting";
  if (server.in_controlled_shutdown === true) return "shutting down";
  return server.lifecycle ?? "running";
}
