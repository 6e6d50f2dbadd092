/** A pipeline: topics, bronze, silver, gold; what is planned against what is committed. */

import { useEffect, useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { clock, count, visible } from "../draw/format.ts";
import { useScope } from "../parts/hooks.ts";
import { Empty, Known, Unknown } from "../parts/known.tsx";
import type { Batch, Pipeline, State, TableState, Tables, TopicProgress } from "../state/messages.ts";
import { tables } from "../state/source.ts";
import { isCurrent, membership, replicaOf } from "../state/world.ts";

const ASK_MS = 2000;

export function TablesPage() {
  const { store } = useConsole();
  const [found, setFound] = useState<Tables | null>(null);
  const isRecording = store.source.trace !== null;
  useEffect(() => {
    if (isRecording) return;
    const load = () => void tables().then(setFound, (error: unknown) => store.fail(error));
    load();
    const again = setInterval(load, ASK_MS);
    return () => clearInterval(again);
  }, [isRecording]);
  const keys = [...new Set((found?.pipelines ?? []).flatMap((one) => one.topics.map((topic) => `${topic.topic}-${topic.partition}`)))];
  useScope(keys.length === 0 ? { kind: "window", first: 0, count: 1, q: "" } : { kind: "partitions", keys: keys.slice(0, 300) });
  const { at } = store;
  return (
    <>
      <div class="head">
        <h1>Tables</h1>
        {found !== null && <p>read at {clock(found.at_ms)}</p>}
      </div>
      {isRecording ? (
        <Empty title="A recording holds no tables">They are read from the folder of a pipeline.</Empty>
      ) : found === null ? (
        <p class="dim">Reading the tables …</p>
      ) : found.pipelines.length === 0 ? (
        <Empty title="No pipeline">{found.reason}</Empty>
      ) : (
        <div class="stack">
          {at !== null && (
            <p class="note">
              Batches and watermarks are those of {clock(at, true)}. Rows and versions of the tables are not recorded: they are hatched.
            </p>
          )}
          {found.pipelines.map((one) => (
            <PipelineView key={`${one.folder} ${one.name}`} pipeline={one} state={store.shown.state} at={at} />
          ))}
        </div>
      )}
    </>
  );
}

const LAYERS: readonly TableState["layer"][] = ["bronze", "silver", "state", "gold", "quarantine"];

function PipelineView({ pipeline, state, at }: { pipeline: Pipeline; state: State; at: number | null }) {
  const batches = at === null ? pipeline.batches : pipeline.batches.filter((one) => one.at_ms !== null && one.at_ms <= at);
  return (
    <section class="stack" aria-label={pipeline.name}>
      <div class="head" style={{ marginBottom: 0 }}>
        <h2>{visible(pipeline.name)}</h2>
        <span class="dim mono clip">{visible(pipeline.folder)}</span>
      </div>
      {pipeline.error !== null && (
        <p class="note bad" role="alert">
          {visible(pipeline.error)}
        </p>
      )}
      <div class="flow">
        <Topics pipeline={pipeline} state={state} at={at} batches={batches} />
        {LAYERS.map((layer) => {
          const of = pipeline.tables.filter((one) => one.layer === layer);
          return of.length === 0 ? null : (
            <section key={layer} class="card layer">
              <h3>{layer}</h3>
              {of.map((table) => (
                <TableView key={table.name} table={table} batches={batches} at={at} />
              ))}
            </section>
          );
        })}
      </div>
      <BatchTable batches={batches} />
    </section>
  );
}

function Topics({ pipeline, state, at, batches }: { pipeline: Pipeline; state: State; at: number | null; batches: readonly Batch[] }) {
  return (
    <section class="card layer topics">
      <h3>topics</h3>
      <table>
        <thead>
          <tr>
            <th>partition</th>
            <th class="num">planned</th>
            <th class="num">watermark</th>
            <th class="num">lag</th>
          </tr>
        </thead>
        <tbody>
          {pipeline.topics.map((topic) => {
            const then = at === null ? topic : thenOf(topic, state, batches);
            return (
              <tr key={`${topic.topic}-${topic.partition}`}>
                <td class="clip">
                  <bdi>{visible(topic.topic)}</bdi>-{topic.partition}
                </td>
                <td class="num">
                  <Known value={then.planned} />
                </td>
                <td class="num">
                  <Known value={then.high_watermark} />
                </td>
                <td class={`num ${(then.lag ?? 0) > 0 ? "b" : ""}`}>
                  <Known value={then.lag} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

/** The progress at an instant: the last batch until then, against the watermark that the leader reported then. */
function thenOf(topic: TopicProgress, state: State, batches: readonly Batch[]): TopicProgress {
  const key = `${topic.topic}-${topic.partition}`;
  const { leader } = membership(state, key);
  const watermark = leader === null || !isCurrent(state, leader) ? null : (replicaOf(state, key, leader)?.high_watermark ?? null);
  const ends = batches.flatMap((batch) => batch.sources.filter((one) => one.topic === topic.topic && one.partition === topic.partition).map((one) => one.planned ?? 0));
  const planned = ends.length === 0 ? null : Math.max(...ends);
  const lag = planned === null || watermark === null ? null : Math.max(0, watermark - planned);
  return { ...topic, planned, high_watermark: watermark, lag };
}

function TableView({ table, batches, at }: { table: TableState; batches: readonly Batch[]; at: number | null }) {
  const last = batches.find((one) => one.table === table.name && one.state === "committed");
  const now = at === null;
  const isMissing = now && table.version === null && table.error === null;
  return (
    <div class="table-state">
      <p>
        <b>{visible(table.name)}</b>{" "}
        {!isMissing && (
          <span class="dim nowrap">version {now ? <Known value={table.version} /> : <Unknown />}</span>
        )}
      </p>
      {table.error !== null ? (
        <p class="bad">{visible(table.error)}</p>
      ) : isMissing ? (
        <p class="faint">not made yet</p>
      ) : (
        <dl class="pairs">
          <div>
            <dt>rows</dt>
            <dd>{now ? <Known value={table.rows} /> : <Unknown />}</dd>
          </div>
          <div>
            <dt>files</dt>
            <dd>{now ? <Known value={table.files} /> : <Unknown />}</dd>
          </div>
          <div>
            <dt>batch</dt>
            <dd>{now ? <Known value={table.batch} /> : <Known value={last?.number} />}</dd>
          </div>
          {table.quarantined !== null && (
            <div>
              <dt>quarantined</dt>
              <dd class={now && table.quarantined > 0 ? "warn" : ""}>{now ? count(table.quarantined) : <Unknown />}</dd>
            </div>
          )}
          <div>
            <dt>written</dt>
            <dd>{now ? table.written_ms === null ? <Unknown /> : clock(table.written_ms) : <Known value={last?.at_ms == null ? null : clock(last.at_ms)} />}</dd>
          </div>
        </dl>
      )}
    </div>
  );
}

function BatchTable({ batches }: { batches: readonly Batch[] }) {
  if (batches.length === 0) return null;
  return (
    <section class="card">
      <h3>Batches</h3>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>table</th>
              <th class="num">batch</th>
              <th>state</th>
              <th>time</th>
              <th>planned until</th>
            </tr>
          </thead>
          <tbody>
            {batches.slice(0, 40).map((batch) => (
              <tr key={`${batch.table} ${batch.number}`}>
                <td>{visible(batch.table)}</td>
                <td class="num">{count(batch.number)}</td>
                <td>
                  <span class={`chip ${batch.state === "committed" ? "" : "warn"}`}>{batch.state}</span>
                </td>
                <td class="nowrap">{batch.at_ms === null ? <Unknown /> : clock(batch.at_ms)}</td>
                <td>
                  {batch.sources.map((one) => (
                    <span key={`${one.topic}-${one.partition}`} class="source nowrap">
                      <bdi>{visible(one.topic)}</bdi>-{one.partition} <b>{one.planned === null ? <Unknown /> : count(one.planned)}</b>
                    </span>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

