import { chmodSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { defineConfig } from 'vite';

/** What package.json installs as commands. */
const { bin } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')) as {
  bin: Record<string, string>;
};
const programs = Object.values(bin).map((path) => basename(path));

/**
 * The product: `dist/host.js`, `dist/gateway.js` and their companions, with every dependency but Dawn's binding, which is native, and the
 * grammar library, which is read as it is (src/platform/node-grammar-library.ts).
 */
export default defineConfig({
  build: {
    ssr: true,
    target: 'node24',
    outDir: 'dist',
    emptyOutDir: true,
    minify: false,
    sourcemap: false,
    license: { fileName: 'third-party-licenses.md' },
    rolldownOptions: {
      // How long plugins take is of no use to who starts a host.
      checks: { pluginTimings: false },
      input: {
        host: 'src/host.ts',
        gateway: 'src/gateway.ts',
        lab: 'src/lab.ts',
        agent: 'src/agent.ts',
        client: 'src/client/index.ts',
        observe: 'src/observe.ts',
        'lab-child': 'src/lab-child.ts',
        'grammar-worker': 'src/grammar-worker.ts',
        'observe-worker': 'src/observe-worker.ts',
        'recorder-worker': 'src/recorder-worker.ts',
        'define-kernel': 'src/define-kernel.ts',
      },
      output: {
        format: 'es',
        entryFileNames: '[name].js',
        chunkFileNames: 'chunks/[name]-[hash].js',
        banner: ({ fileName }) => (programs.includes(fileName) ? '#!/usr/bin/env node' : ''),
      },
    },
  },
  plugins: [
    {
      name: 'executable-programs',
      writeBundle: ({ dir = 'dist' }, bundle) => {
        for (const program of programs) if (program in bundle) chmodSync(`${dir}/${program}`, 0o755);
      },
    },
  ],
  ssr: { noExternal: true, external: ['webgpu', '@mlc-ai/web-xgrammar'] },
});
