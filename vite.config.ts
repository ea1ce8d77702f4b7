import { defineConfig } from 'vite';

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
      output: { format: 'es', entryFileNames: '[name].js', chunkFileNames: 'chunks/[name]-[hash].js' },
    },
  },
  ssr: { noExternal: true, external: ['webgpu', '@mlc-ai/web-xgrammar'] },
});
