import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/**
 * The modules of the package lathe-web, in `dist/lathe-web`: from the sources of the engine of `web/vite.config.ts`, with names
 * that stay, without the pages.
 */
export default defineConfig({
  root: here('../web'),
  base: './',
  publicDir: false,
  worker: {
    format: 'es',
    rolldownOptions: { checks: { pluginTimings: false }, output: { entryFileNames: 'worker.js' } },
  },
  build: {
    target: 'es2024',
    outDir: here('../dist/lathe-web'),
    emptyOutDir: true,
    license: { fileName: 'third-party-licenses.md' },
    assetsInlineLimit: 0,
    modulePreload: false,
    rolldownOptions: {
      checks: { pluginTimings: false },
      input: { index: here('../web/engine/package.ts'), model: here('../web/engine/package-model.ts') },
      preserveEntrySignatures: 'strict',
      output: {
        entryFileNames: '[name].js',
        chunkFileNames: '[name].js',
        assetFileNames: '[name][extname]',
      },
    },
  },
});
