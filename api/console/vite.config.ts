import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** Packs what packs well: the api hands the files out as they are. */
function packed(): Plugin {
  let out = "dist";
  return {
    name: "packed",
    apply: "build",
    configResolved(config) {
      out = config.build.outDir;
    },
    async closeBundle() {
      for (const name of await readdir(out, { recursive: true })) {
        if (!/\.(js|css|html|svg|webmanifest)$/.test(name)) continue;
        const path = join(out, name);
        const bytes = await promisify(gzip)(await readFile(path), { level: 9 });
        await writeFile(`${path}.gz`, bytes);
        await rm(path);
      }
    },
  };
}

export default defineConfig({
  plugins: [packed()],
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    // A data: URL in a style is allowed, in a script it is not; files of their own are simpler than the difference.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
});
