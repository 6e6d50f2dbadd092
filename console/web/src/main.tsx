/** The start: the recording in this file, or the console's process. */

import "./style/theme.css";
import "./style/shell.css";
import "./style/pages.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { applyTheme } from "./parts/theme.tsx";
import { embeddedTrace, LiveSource, type Source, TraceSource } from "./state/source.ts";
import { Store } from "./state/store.ts";

function sourceOf(): Source {
  const trace = embeddedTrace(document);
  return trace === null ? new LiveSource() : new TraceSource(trace);
}

function start(root: HTMLElement): void {
  applyTheme();
  let source: Source;
  try {
    source = sourceOf();
  } catch (error) {
    const note = document.createElement("p");
    note.className = "note bad";
    note.textContent = error instanceof Error ? error.message : String(error);
    root.append(note);
    return;
  }
  const store = new Store(source);
  render(<App store={store} />, root);
  void store.start();
}

const begin = () => start(document.getElementById("app") as HTMLElement);
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
else begin();
