/** Builds the pages into console/strandline_console/static. `make console` runs it and records the sources' hash. */

import { cp, mkdir, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const target = process.argv[2] ?? here("../strandline_console/static");

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
await build({
  entryPoints: { app: here("src/main.tsx") },
  outdir: target,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
});
for (const name of ["index.html", "icon.svg"]) await cp(here(`src/${name}`), `${target}/${name}`);
