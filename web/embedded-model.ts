import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import type { Plugin } from 'vite';

const name = 'lathe-tiny-q8_0.gguf';
const file = new URL(`../models/${name}`, import.meta.url);

/** Serves the embedded model where the engine's module expects it: at `models/`, next to the folder of the module. */
export const embeddedModelPlugin = (): Plugin => ({
  name: 'embedded-model',
  async generateBundle() {
    this.emitFile({ type: 'asset', fileName: `models/${name}`, source: await readFile(file) });
  },
  configureServer({ middlewares }) {
    middlewares.use((request, response, next) => {
      // Matches under any server root.
      if (!new URL(request.url ?? '', 'http://dev').pathname.endsWith(`/models/${name}`)) {
        next();
        return;
      }
      stat(file).then(({ size }) => {
        response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': size });
        createReadStream(file).pipe(response);
      }, next);
    });
  },
});
