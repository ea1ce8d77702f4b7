import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin, type ProxyOptions } from 'vite';
import { embeddedModel } from './embedded-model.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The host whose planes the pages speak to while they are worked on. */
const host = process.env['LATHE_HOST'];
const asSameOrigin: NonNullable<ProxyOptions['configure']> = (proxy) => {
  // The host refuses what a page of another origin sends; this one stands in for its own.
  proxy.on('proxyReq', (request) => request.removeHeader('origin'));
};
const spoken = '^/(agent/v1|docs|health|host/v1|lab/v1|observe/v1|openapi.json|recorder/v1|v1/)';

/** While the pages are worked on, Vite puts scripts and styles into them that their policy would refuse. */
const withoutPolicy: Plugin = {
  name: 'without-policy',
  apply: 'serve',
  transformIndexHtml: (html) => html.replace(/<meta\s+http-equiv="Content-Security-Policy"[^>]*>/, ''),
};

/**
 * `dist/web`: the pages that the host serves, and the engine as a module for other pages. With `--mode demo`, `dist/demo`:
 * the demo and the module alone, for any static web server and any path of it.
 */
export default defineConfig(({ mode }) => {
  const isDemo = mode === 'demo';
  const engine = { lathe: here('engine/index.ts') };
  return {
    root: isDemo ? here('demo') : here('.'),
    // Relative: what is built may lie below any path.
    base: './',
    publicDir: here('public'),
    plugins: [react(), embeddedModel(), withoutPolicy],
    worker: { format: 'es' },
    // For who works on the pages: `LATHE_HOST=http://127.0.0.1:8080 npx vite --config web/vite.config.ts`.
    server: {
      proxy:
        host === undefined ? {} : { [spoken]: { target: host, changeOrigin: true, configure: asSameOrigin } },
    },
    build: {
      target: 'es2024',
      outDir: here(isDemo ? '../dist/demo' : '../dist/web'),
      emptyOutDir: true,
      // The policy of the pages allows no data: URLs but for pictures, and they would weigh on the first view.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      rolldownOptions: {
        // How long plugins take is of no use to who starts a host.
        checks: { pluginTimings: false },
        input: isDemo
          ? { demo: here('demo/index.html'), ...engine }
          : { console: here('index.html'), demo: here('demo/index.html'), ...engine },
        preserveEntrySignatures: 'exports-only',
        output: {
          entryFileNames: ({ name }) => (name === 'lathe' ? 'engine/lathe.js' : 'assets/[name]-[hash].js'),
          chunkFileNames: 'assets/[name]-[hash].js',
          assetFileNames: 'assets/[name]-[hash][extname]',
        },
      },
    },
  };
});
