/** Records of a partition, from an offset or a time. */

import { useEffect, useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { bytes, clock, count, indentedJson, visible } from "../draw/format.ts";
import { useScope } from "../parts/hooks.ts";
import { Empty, Epoch, Known } from "../parts/known.tsx";
import { PartitionPicker } from "../parts/picker.tsx";
import type { BatchHeader, Payload, RecordRow, Records } from "../state/messages.ts";
import { formatRoute } from "../state/route.ts";
import { records } from "../state/source.ts";
import { membership, nameOf, replicaOf } from "../state/world.ts";

const PAGE = 50;

export function RecordsPage() {
  const { store, route } = useConsole();
  const key = route.item;
  useScope(key === "" ? { kind: "window", first: 0, count: 60, q: "" } : { kind: "partitions", keys: [key] });
  const isRecording = store.source.trace !== null;
  return (
    <>
      <div class="head">
        <h1 class="clip">{key === "" ? "Records" : key}</h1>
        {key !== "" && <Bounds partition={key} />}
        <span class="space" />
        {key !== "" && <a href={formatRoute({ ...route, page: "partition", options: {} })}>Replicas</a>}
        <PartitionPicker page="records" />
      </div>
      {isRecording ? (
        <Empty title="A recording holds no records">It has what the servers reported of their logs, not what is in them.</Empty>
      ) : key === "" ? (
        <Empty title="Choose a partition">Its records are shown from any offset or time: key, value, headers, batch.</Empty>
      ) : (
        <Browser key={key} partition={key} />
      )}
    </>
  );
}

/** Where the log begins and ends at the instant that is shown. */
function Bounds({ partition }: { partition: string }) {
  const { store } = useConsole();
  const { leader } = membership(store.shown.state, partition);
  const replica = leader === null ? null : replicaOf(store.shown.state, partition, leader);
  return (
    <span class="facts">
      <span>
        start <Known value={replica?.log_start} />
      </span>
      <span>
        watermark <b><Known value={replica?.high_watermark} /></b>
      </span>
      {!store.isLive && store.at !== null && <span class="warn">at {clock(store.at, true)}</span>}
    </span>
  );
}

function Browser({ partition }: { partition: string }) {
  const { store, route, go } = useConsole();
  const [page, setPage] = useState<Records | null>(null);
  const [error, setError] = useState("");
  const offset = route.options["offset"] ?? "";
  const time = route.options["time"] ?? "";
  const { leader } = membership(store.shown.state, partition);
  const end = leader === null ? null : (replicaOf(store.shown.state, partition, leader)?.high_watermark ?? null);
  const name = nameOf(partition);
  // Without a place, the last records at the instant that is shown.
  const start = offset !== "" || time !== "" ? null : end === null ? null : Math.max(0, end - PAGE);
  const isPlaced = offset !== "" || time !== "" || start !== null;
  const [first] = useState({ start: null as number | null });
  if (first.start === null && start !== null) first.start = start;
  useEffect(() => {
    if (!isPlaced) return;
    let isGone = false;
    const query = new URLSearchParams({ topic: name.topic, partition: String(name.partition), limit: String(PAGE) });
    if (time !== "") query.set("time", String(new Date(time).getTime()));
    else query.set("offset", offset === "" ? String(first.start ?? 0) : offset);
    records(query).then(
      (found) => {
        if (isGone) return;
        setPage(found);
        setError("");
      },
      (failure: unknown) => {
        if (!isGone) setError(failure instanceof Error ? failure.message : String(failure));
      },
    );
    return () => {
      isGone = true;
    };
  }, [partition, offset, time, isPlaced]);
  const at = (next: number) => go({ options: { offset: String(Math.max(page?.log_start ?? 0, next)) } }, true);
  const shownFirst = page?.first_offset ?? 0;
  return (
    <div class="stack">
      <Places offset={offset} time={time} />
      {error !== "" && <p class="note bad">{error}</p>}
      {page !== null && (
        <section class="card">
          <div class="row">
            <button disabled={shownFirst <= (page.log_start ?? 0)} onClick={() => at(shownFirst - PAGE)}>
              Earlier
            </button>
            <button disabled={page.next_offset >= (page.high_watermark ?? Infinity)} onClick={() => at(page.next_offset)}>
              Later
            </button>
            <button onClick={() => at(page.log_start ?? 0)}>First</button>
            <button onClick={() => at((page.high_watermark ?? PAGE) - PAGE)}>Last</button>
            <span class="dim">
              {page.records.length === 0
                ? `No record from offset ${count(page.first_offset)} on`
                : `${count(page.records.length)} records from offset ${count(page.first_offset)}`}
              , watermark now <Known value={page.high_watermark} />
            </span>
          </div>
          {page.damage !== null && <p class="note bad">{page.damage}</p>}
          {page.records.length > 0 && <Rows page={page} end={store.isLive ? null : end} />}
        </section>
      )}
    </div>
  );
}

function Places({ offset, time }: { offset: string; time: string }) {
  const { go } = useConsole();
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget as HTMLFormElement);
        const from = String(form.get("time") ?? "");
        const wanted = String(form.get("offset") ?? "").replace(/[\s,]/g, "");
        go({ options: from === "" ? { offset: wanted } : { time: from } }, true);
      }}
    >
      <label>
        from offset <input name="offset" inputMode="numeric" pattern="[0-9, ]*" size={10} defaultValue={offset} />
      </label>
      <label>
        or from <input name="time" type="datetime-local" step="1" defaultValue={time} />
      </label>
      <button class="primary">Show</button>
    </form>
  );
}

function Rows({ page, end }: { page: Records; end: number | null }) {
  const [open, setOpen] = useState<number | null>(null);
  return (
    <div class="scroll">
      <table class="records">
        <thead>
          <tr>
            <th class="num">offset</th>
            <th class="narrow-off">time</th>
            <th>epoch</th>
            <th>key</th>
            <th>value</th>
            <th class="num narrow-off">size</th>
          </tr>
        </thead>
        <tbody>
          {page.records.map((row) => {
            const batch = page.batches[row.batch];
            const isOpen = open === row.offset;
            return (
              <>
                <tr key={row.offset} class={end !== null && row.offset >= end ? "later" : ""}>
                  <td class="num">
                    <button class="plain" aria-expanded={isOpen} onClick={() => setOpen(isOpen ? null : row.offset)}>
                      {isOpen ? "▾" : "▸"} {count(row.offset)}
                    </button>
                  </td>
                  <td class="nowrap dim narrow-off">{row.timestamp_ms === null ? "none" : clock(row.timestamp_ms, true)}</td>
                  <td>
                    <Epoch epoch={batch?.leader_epoch} />
                  </td>
                  <td class="cellular">
                    <Line payload={row.key} />
                  </td>
                  <td class="cellular wide">
                    {batch?.control === true ? <span class="dim">control record</span> : <Line payload={row.value} />}
                  </td>
                  <td class="num dim nowrap narrow-off">{row.value === null ? "–" : bytes(row.value.size)}</td>
                </tr>
                {isOpen && (
                  <tr key={`${row.offset} open`}>
                    <td colSpan={6} class="opened">
                      <Details row={row} batch={batch} />
                    </td>
                  </tr>
                )}
              </>
            );
          })}
        </tbody>
      </table>
      {end !== null && page.records.some((row) => row.offset >= end) && (
        <p class="dim">Paler rows were not committed yet at the instant that is shown.</p>
      )}
    </div>
  );
}

function Line({ payload }: { payload: Payload | null }) {
  if (payload === null) return <span class="faint">none</span>;
  if (payload.size === 0) return <span class="faint">empty</span>;
  if (payload.text === null) return <span class="mono faint">0x{payload.hex.slice(0, 80)}</span>;
  return <bdi class="mono">{visible(payload.text.slice(0, 200))}</bdi>;
}

function Details({ row, batch }: { row: RecordRow; batch: BatchHeader | undefined }) {
  return (
    <div class="stack">
      <PayloadView name="Key" payload={row.key} />
      <PayloadView name="Value" payload={row.value} />
      {row.headers.map((header, i) => (
        <PayloadView key={i} name={`Header ${visible(header.name)}`} payload={header.value} />
      ))}
      {batch !== undefined && (
        <dl class="pairs">
          {[["time", row.timestamp_ms === null ? "none" : `${new Date(row.timestamp_ms).toLocaleDateString()} ${clock(row.timestamp_ms, true)}`] as const, ...batchPairs(batch)].map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

function batchPairs(batch: BatchHeader): [string, string][] {
  return [
    ["batch", `${count(batch.base_offset)} to ${count(batch.last_offset)}`],
    ["records", count(batch.records)],
    ["size", bytes(batch.size)],
    ["codec", batch.codec],
    ["timestamps", batch.timestamp_type],
    ["leader epoch", String(batch.leader_epoch)],
    ["producer", batch.producer_id < 0 ? "none" : `${batch.producer_id}, epoch ${batch.producer_epoch}`],
    ["sequence", batch.base_sequence < 0 ? "none" : count(batch.base_sequence)],
    ["transactional", batch.transactional ? "yes" : "no"],
    ["control", batch.control ? "yes" : "no"],
  ];
}

type Form = "text" | "json" | "hex";

function PayloadView({ name, payload }: { name: string; payload: Payload | null }) {
  const [chosen, setForm] = useState<Form | null>(null);
  if (payload === null) {
    return (
      <p>
        <b>{name}</b> <span class="faint">none</span>
      </p>
    );
  }
  const forms: Form[] = [...(payload.json ? (["json"] as const) : []), ...(payload.text === null ? [] : (["text"] as const)), "hex"];
  const form = chosen ?? forms[0] ?? "hex";
  return (
    <div>
      <div class="row">
        <b>{name}</b>
        <span class="dim">{bytes(payload.size)}</span>
        <span class="segmented">
          {forms.map((one) => (
            <button key={one} aria-pressed={one === form} onClick={() => setForm(one)}>
              {one === "json" ? "JSON" : one}
            </button>
          ))}
        </span>
        {payload.truncated && <span class="warn">only the beginning is shown</span>}
      </div>
      <pre class="payload">{rendered(payload, form)}</pre>
    </div>
  );
}

function rendered(payload: Payload, form: Form): string {
  if (form === "hex" || payload.text === null) return dump(payload.hex);
  const text = form === "json" ? indentedJson(payload.text) : payload.text;
  return text
    .split("\n")
    .map((line) => visible(line.replaceAll("\t", "    ")))
    .join("\n");
}

/** Sixteen bytes a line: offset, hex, text. */
export function dump(hex: string): string {
  const lines: string[] = [];
  for (let at = 0; at < hex.length; at += 32) {
    const part = hex.slice(at, at + 32);
    const pairs = part.match(/../g) ?? [];
    const text = pairs.map((pair) => {
      const code = parseInt(pair, 16);
      return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : ".";
    });
    lines.push(`${(at / 2).toString(16).padStart(6, "0")}  ${pairs.join(" ").padEnd(47)}  ${text.join("")}`);
  }
  return lines.join("\n");
}
