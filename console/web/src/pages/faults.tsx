/** Faults with a duration, and what they cost a workload that checks every record. */

import { useEffect, useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { clock, count, span } from "../draw/format.ts";
import { useScope } from "../parts/hooks.ts";
import { Empty, Known, Unknown } from "../parts/known.tsx";
import type { Fault, FaultLab, FaultRequest, FaultTarget, Workload } from "../state/messages.ts";
import { act, faultLab } from "../state/source.ts";

const KINDS: { readonly [kind in Fault["kind"]]: readonly [name: string, what: string] } = {
  kill: ["Kill", "SIGKILL; started again when it heals"],
  stop: ["Stop", "SIGTERM: a controlled shutdown; started again when it heals"],
  pause: ["Pause", "SIGSTOP: it hangs with its connections open"],
  cut_off: ["Cut off", "no packet reaches it or leaves it"],
  slow_disk: ["Slow disk", "each fsync waits; without a disk of its own, flushes of other servers may wait too"],
  full_disk: ["Full disk", "no append has room"],
};

export function FaultLabPage() {
  const { store } = useConsole();
  useScope({ kind: "window", first: 0, count: 1, q: "" });
  const [lab, setLab] = useState<FaultLab | null>(null);
  const isRecording = store.source.trace !== null;
  const { faults, servers, workload } = store.shown.state;
  const seen = `${Object.values(servers).map((one) => one.state)} ${Object.values(faults).map((one) => one.state)}`;
  useEffect(() => {
    if (isRecording) return;
    faultLab().then(setLab, (error: unknown) => store.fail(error));
  }, [isRecording, seen]);
  return (
    <>
      <div class="head">
        <h1>Fault lab</h1>
        {lab?.available === true && <p>Each fault heals by itself. Faults hit this cluster's own processes.</p>}
      </div>
      <div class="stack">
        <Counters workload={workload} />
        {isRecording ? null : lab === null ? (
          <p class="dim">Asking for what can be done …</p>
        ) : lab.available ? (
          <Lab lab={lab} />
        ) : (
          <Empty title="No faults here">{lab.reason}</Empty>
        )}
        <FaultList faults={Object.values(faults)} />
      </div>
    </>
  );
}

const COUNTERS: readonly (readonly [string, "sent" | "acknowledged" | "read" | "lost" | "doubled" | "failed", string])[] = [
  ["Sent", "sent", ""],
  ["Acknowledged", "acknowledged", ""],
  ["Read", "read", ""],
  ["Lost", "lost", "bad"],
  ["Doubled", "doubled", "bad"],
  ["Sends failed", "failed", "warn"],
];

function Counters({ workload }: { workload: Workload | null }) {
  return (
    <section>
      <dl class="tiles" style={{ marginBottom: 0 }}>
        {COUNTERS.map(([name, key, tone]) => (
          <div key={key} class={`tile ${workload !== null && workload[key] > 0 ? tone : ""}`}>
            <dt>{name}</dt>
            <dd data-counter={key}>{workload === null ? <Unknown /> : count(workload[key])}</dd>
          </div>
        ))}
        <div class="tile">
          <dt title="In the last 10 seconds">Slowest answer</dt>
          <dd>
            {workload?.slowest_acknowledgement_ms == null ? <Unknown title="Nothing was acknowledged" /> : span(workload.slowest_acknowledgement_ms)}
          </dd>
        </div>
      </dl>
      {workload?.error != null && <p class="note bad">{workload.error}</p>}
    </section>
  );
}

function useToken(): [string, (token: string) => void] {
  const [token, setToken] = useState(() => sessionStorage.getItem("strandline-token") ?? "");
  return [
    token,
    (next) => {
      sessionStorage.setItem("strandline-token", next);
      setToken(next);
    },
  ];
}

function Lab({ lab }: { lab: FaultLab }) {
  const { store } = useConsole();
  const [token, setToken] = useToken();
  const [seconds, setSeconds] = useState(Math.min(15, lab.duration_s_max));
  const [said, setSaid] = useState("");
  const { workload } = store.shown.state;
  const isRunning = workload?.state === "running";
  const isHeld = token === "" || !store.isLive;
  const call = (path: string, body: object, done: string) =>
    act(path, token, body).then(
      () => setSaid(done),
      (error: unknown) => setSaid(error instanceof Error ? error.message : String(error)),
    );
  const inject = (request: FaultRequest) =>
    call("/api/faults", request, `${KINDS[request.kind][0]} ${request.target} for ${span(request.duration_s * 1000)}.`);
  return (
    <section class="card">
      <form class="row lab-bar" onSubmit={(event) => event.preventDefault()}>
        <label>
          Token <input type="password" autoComplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value.trim())} size={18} placeholder="printed at the start" />
        </label>
        <label>
          Heals after{" "}
          <input type="number" min={1} max={lab.duration_s_max} value={seconds} onInput={(event) => setSeconds(Number(event.currentTarget.value))} /> s
        </label>
        <span class="space" />
        <button
          type="button"
          class={isRunning ? "" : "primary"}
          disabled={isHeld}
          onClick={() => void call("/api/workload", { running: !isRunning, records_per_s: 200 }, isRunning ? "The workload stops." : "The workload starts.")}
        >
          {isRunning ? "Stop the checking workload" : "Start the checking workload"}
        </button>
      </form>
      {token === "" && <p class="dim">Enter the token that <code>strandline console</code> printed to act.</p>}
      {!store.isLive && <p class="warn">You look at the past. Faults begin now: go back to live to act.</p>}
      <p role="status" class="said">
        {said}
      </p>
      <div class="targets">
        {lab.targets.map((target) => (
          <Target key={target.id} target={target} isHeld={isHeld || !(seconds >= 1 && seconds <= lab.duration_s_max)} onPick={(kind) => void inject({ kind, target: target.id, duration_s: seconds })} />
        ))}
      </div>
      <Unavailable targets={lab.targets} />
    </section>
  );
}

/** The reasons why a choice is not there, each once. */
function Unavailable({ targets }: { targets: readonly FaultTarget[] }) {
  const found = new Map<string, string[]>();
  for (const target of targets) {
    for (const { kind, available, reason } of target.choices) {
      if (available || reason === null) continue;
      const line = `${KINDS[kind][0]}: ${reason}`;
      found.set(line, [...(found.get(line) ?? []), target.id.replace("-", " ")]);
    }
  }
  return (
    <ul class="reasons dim">
      {[...found].map(([line, ids]) => (
        <li key={line}>
          {line} {ids.length < targets.length && `(${ids.join(", ")})`}
        </li>
      ))}
    </ul>
  );
}

function Target({ target, isHeld, onPick }: { target: FaultTarget; isHeld: boolean; onPick: (kind: Fault["kind"]) => void }) {
  return (
    <fieldset class="target" data-target={target.id}>
      <legend>
        <span class={`dot ${target.alive ? "on" : "off"}`} /> {target.id.replace("-", " ")}
        {!target.alive && <span class="warn"> not running</span>}
      </legend>
      {target.choices.map((choice) => (
        <button key={choice.kind} disabled={isHeld || !choice.available} title={choice.reason ?? KINDS[choice.kind][1]} data-fault={choice.kind} onClick={() => onPick(choice.kind)}>
          {KINDS[choice.kind][0]}
        </button>
      ))}
    </fieldset>
  );
}

function FaultList({ faults }: { faults: Fault[] }) {
  const { store } = useConsole();
  const [token] = useToken();
  const now = store.at ?? store.newest;
  const sorted = [...faults].sort((a, b) => b.begun_ms - a.begun_ms);
  const heal = (fault: Fault) => act(`/api/faults/${encodeURIComponent(fault.id)}/heal`, token, {}).catch((error: unknown) => store.fail(error));
  return (
    <section class="card">
      <h2>Faults</h2>
      {sorted.length === 0 && <p class="dim">None in the last fifteen minutes.</p>}
      <ul class="fault-list">
        {sorted.map((fault) => (
          <li key={fault.id}>
            <p class="row">
              <b>
                {KINDS[fault.kind][0]} {fault.target.replace("-", " ")}
              </b>
              <span class={`chip ${fault.state === "healed" ? "" : fault.state === "failed" ? "bad" : "warn"}`}>{fault.state}</span>
              <span class="dim">
                {clock(fault.begun_ms)}
                {fault.healed_ms === null ? `, heals ${fault.heals_ms > now ? `in ${span(fault.heals_ms - now)}` : "now"}` : ` to ${clock(fault.healed_ms)}`}
              </span>
              {fault.state === "active" && store.isLive && (
                <button disabled={token === ""} onClick={() => void heal(fault)}>
                  Heal now
                </button>
              )}
            </p>
            {fault.sentence !== "" && <p class={fault.state === "failed" ? "bad" : "dim"}>{fault.sentence}</p>}
            {fault.cost !== null && <CostLine fault={fault} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

function CostLine({ fault }: { fault: Fault }) {
  const { cost } = fault;
  if (cost === null) return null;
  return (
    <p class="facts">
      <span>elections <b><Known value={cost.elections} /></b></span>
      <span>ISR changes <b><Known value={cost.isr_changes} /></b></span>
      <span>truncated <b><Known value={cost.truncated_records} /></b></span>
      <span>without a leader <b>{cost.offline_ms === null ? <Unknown /> : span(cost.offline_ms)}</b></span>
      <span>slowest answer <b>{cost.slowest_acknowledgement_ms === null ? <Unknown title="The workload did not run" /> : span(cost.slowest_acknowledgement_ms)}</b></span>
      <span>lost <b class={(cost.lost ?? 0) > 0 ? "bad" : ""}><Known value={cost.lost} /></b></span>
      <span>doubled <b class={(cost.doubled ?? 0) > 0 ? "bad" : ""}><Known value={cost.doubled} /></b></span>
    </p>
  );
}
