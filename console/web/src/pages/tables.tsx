/** A pipeline: topics, bronze, silver, gold; what is planned against what is committed. */

import { useState } from "preact/hooks";
import { useConsole } from "../app.tsx";
import { clock, count, visible } from "../draw/format.ts";
import { partOf } from "../draw/paging.ts";
import { useScope } from "../parts/hooks.ts";
import { Empty, Known, Unknown } from "../parts/known.tsx";
import { Pager } from "../parts/pager.tsx";
import type { Batch, Pipeline, Planned, State, TableState } from "../state/messages.ts";
import { isCurrent, keyOf, membership, replicaOf } from "../state/world.ts";

export function TablesPage() {
  const { store } = useConsole();
  const { state } = store.shown;
  const pipelines = Object.entries(state.pipelines);
  const keys = [...new Set(pipelines.flatMap(([, one]) => one.topics.map((topic) => keyOf(topic.topic, topic.partition))))];
  useScope(keys.length === 0 ? { kind: "window", first: 0, count: 1, q: "" } : { kind: "partitions", keys: keys.slice(0, 300) });
  return (
    <>
      <div class="head">
        <h1>Tables</h1>
        {store.at !== null && <p>at {clock(store.at, true)}</p>}
      </div>
      {pipelines.length > 0 ? (
        <div class="stack">
          {pipelines.map(([file, one]) => (
            <PipelineView key={file} pipeline={one} state={state} />
          ))}
        </div>
      ) : store.source.trace !== null ? (
        <Empty title="No tables in this recording">Its console was started without a pipeline, or had not read one yet.</Empty>
      ) : store.meta?.has_tables !== true ? (
        <Empty title="No pipeline">The console was started without a pipeline: give --pipeline with the folder of a pipeline.toml, or the file.</Empty>
      ) : store.at !== null ? (
        <Empty title="Unknown">The tables had not been read at this instant.</Empty>
      ) : (
        <p class="dim">Reading the tables …</p>
      )}
    </>
  );
}

const LAYERS: readonly TableState["layer"][] = ["bronze", "silver", "state", "gold", "quarantine"];

function PipelineView({ pipeline, state }: { pipeline: Pipeline; state: State }) {
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
      {pipeline.unread !== null && (
        <p class="note warn" role="alert">
          {visible(pipeline.unread)} What is shown was read before.
        </p>
      )}
      <div class="flow">
        <Topics pipeline={pipeline} state={state} />
        {LAYERS.map((layer) => {
          const of = pipeline.tables.filter((one) => one.layer === layer);
          return of.length === 0 ? null : (
            <section key={layer} class="card layer">
              <h3>{layer}</h3>
              {of.map((table) => (
                <TableView key={table.name} table={table} />
              ))}
            </section>
          );
        })}
      </div>
      <BatchTable batches={pipeline.batches} />
    </section>
  );
}

const TOPICS = 50;

function Topics({ pipeline, state }: { pipeline: Pipeline; state: State }) {
  const [first, setFirst] = useState(0);
  const part = partOf(pipeline.topics.length, first, TOPICS);
  return (
    <section class="card layer topics">
      <h3>topics</h3>
      <Pager part={part} size={TOPICS} what="partitions" onGo={setFirst} />
      <div class="scroll">
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
            {pipeline.topics.slice(part.first, part.end).map((topic) => {
              const watermark = watermarkOf(topic, state);
              const lag = topic.planned === null || watermark === null ? null : Math.max(0, watermark - topic.planned);
              return (
                <tr key={keyOf(topic.topic, topic.partition)}>
                  <td class="clip" title={`${visible(topic.topic)}:${topic.partition}`}>
                    <bdi>{visible(topic.topic)}</bdi>:{topic.partition}
                  </td>
                  <td class="num">
                    <Known value={topic.planned} />
                  </td>
                  <td class="num">
                    <Known value={watermark} />
                  </td>
                  <td class={`num ${(lag ?? 0) > 0 ? "b" : ""}`}>
                    <Known value={lag} />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The watermark as the leader reports it; null if no leader is watched. */
function watermarkOf(topic: Planned, state: State): number | null {
  const key = keyOf(topic.topic, topic.partition);
  const { leader } = membership(state, key);
  return leader === null || !isCurrent(state, leader) ? null : (replicaOf(state, key, leader)?.high_watermark ?? null);
}

function TableView({ table }: { table: TableState }) {
  const isMissing = table.version === null && table.error === null;
  return (
    <div class="table-state">
      <p>
        <b>{visible(table.name)}</b>{" "}
        {!isMissing && (
          <span class="dim nowrap">
            version <Known value={table.version} />
          </span>
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
            <dd>
              <Known value={table.rows} />
            </dd>
          </div>
          <div>
            <dt>files</dt>
            <dd>
              <Known value={table.files} />
            </dd>
          </div>
          <div>
            <dt>batch</dt>
            <dd>
              <Known value={table.batch} />
            </dd>
          </div>
          {table.quarantined !== null && (
            <div>
              <dt>quarantined</dt>
              <dd class={table.quarantined > 0 ? "warn" : ""}>{count(table.quarantined)}</dd>
            </div>
          )}
          <div>
            <dt>written</dt>
            <dd>{table.written_ms === null ? <Unknown /> : clock(table.written_ms)}</dd>
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
                    <span key={keyOf(one.topic, one.partition)} class="source nowrap">
                      <bdi>{visible(one.topic)}</bdi>:{one.partition} <b>{one.planned === null ? <Unknown /> : count(one.planned)}</b>
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

