/** Bundles the unit tests and runs them with node's own runner. */

import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const target = await mkdtemp(join(tmpdir(), "strandline-console-"));
const names = (await readdir(here("test"))).filter((name) => name.endsWith(".test.ts"));
await build({
  entryPoints: names.map((name) => here(`test/${name}`)),
  outdir: target,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
const files = (await readdir(target)).map((name) => join(target, name));
const { status } = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
await rm(target, { recursive: true, force: true });
process.exit(status ?? 1);
