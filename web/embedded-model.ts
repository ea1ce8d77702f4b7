import { readFile } from 'node:fs/promises';
import type { Plugin } from 'vite';

const name = 'lathe-tiny-q8_0.gguf';

/** Puts the embedded model beside the pages, at `models/`, where the engine's module looks for it. */
export const embeddedModel = (): Plugin => ({
  name: 'embedded-model',
  apply: 'build',
  async generateBundle() {
    const source = await readFile(new URL(`../models/${name}`, import.meta.url));
    this.emitFile({ type: 'asset', fileName: `models/${name}`, source });
  },
});
