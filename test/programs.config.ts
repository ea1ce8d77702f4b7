import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const support = fileURLToPath(new URL('support/', import.meta.url));

/** Programs that tests start hundreds of times: bundled, they start in a third of the time (`supportProgram` in support/host.ts). */
const programs = [
  'scripted-host',
  'inheriting-owner',
  'mcp-child',
  'mcp-owner',
  'kills/ledger-acts',
  'kills/recorder-actor',
  'kills/store-acts',
];

export default defineConfig({
  build: {
    ssr: true,
    target: 'node24',
    // As deep in the repository as `test/support`: `repository` in host.ts is relative to it.
    outDir: 'node_modules/.lathe-tests',
    emptyOutDir: true,
    minify: false,
    rolldownOptions: {
      checks: { pluginTimings: false },
      input: Object.fromEntries(programs.map((name) => [name.replace(/.*\//, ''), `${support}${name}.ts`])),
      output: { format: 'es', entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
    },
  },
  ssr: { noExternal: true, external: ['webgpu', '@mlc-ai/web-xgrammar', 'vitest'] },
});
