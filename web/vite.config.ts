import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin, type ProxyOptions } from 'vite';
import { embeddedModelPlugin } from './embedded-model.ts';
import { serviceWorkerPlugin } from './service-worker-plugin.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The host that the development server proxies to. */
const host = process.env['LATHE_HOST'];
const presentAsSameOrigin: NonNullable<ProxyOptions['configure']> = (proxy) => {
  // The host refuses requests from other origins; the proxy presents the page as same-origin.
  proxy.on('proxyReq', (request) => request.removeHeader('origin'));
};
const apiPaths = '^/(admin/v1|agent/v1|docs|health|host/v1|lab/v1|observe/v1|openapi.json|recorder/v1|v1/)';

/** Removes the Content-Security-Policy in development, where Vite injects inline scripts and styles. */
const withoutPolicy: Plugin = {
  name: 'without-policy',
  apply: 'serve',
  transformIndexHtml: (html) => html.replace(/<meta\s+http-equiv="Content-Security-Policy"[^>]*>/, ''),
};

/**
 * Builds `dist/web`: the pages that the host serves, and the engine as a module for other pages. With `--mode demo`,
 * builds `dist/demo`: only the demo and the module, for any path on a static web server.
 */
export default defineConfig(({ mode }) => {
  const isDemo = mode === 'demo';
  const scripts = {
    lathe: here('engine/index.ts'),
    'service-worker': here('demo/service-worker.ts'),
  };
  const folder = isDemo ? '' : 'demo/';
  return {
    root: isDemo ? here('demo') : here('.'),
    // Relative URLs, so that the build works under any path.
    base: './',
    publicDir: here('public'),
    plugins: [
      react(),
      embeddedModelPlugin(),
      withoutPolicy,
      serviceWorkerPlugin(isDemo ? 'index.html' : 'demo/index.html'),
    ],
    worker: { format: 'es', rolldownOptions: { checks: { pluginTimings: false } } },
    // Development: `LATHE_HOST=http://127.0.0.1:8080 npx vite --config web/vite.config.ts`.
    server: {
      proxy:
        host === undefined
          ? {}
          : { [apiPaths]: { target: host, changeOrigin: true, configure: presentAsSameOrigin } },
    },
    build: {
      target: 'es2024',
      outDir: here(isDemo ? '../dist/demo' : '../dist/web'),
      emptyOutDir: true,
      license: { fileName: 'third-party-licenses.md' },
      // The Content-Security-Policy allows data: URLs only for images, and inlined assets would slow down the first
      // view.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      rolldownOptions: {
        // Plugin timings are noise for users who start a host.
        checks: { pluginTimings: false },
        input: isDemo
          ? { demo: here('demo/index.html'), ...scripts }
          : {
              console: here('index.html'),
              demo: here('demo/index.html'),
              gateway: here('gateway/index.html'),
              ...scripts,
            },
        preserveEntrySignatures: 'exports-only',
        output: {
          entryFileNames: ({ name }) => {
            if (name === 'lathe') return 'engine/lathe.js';
            return name === 'service-worker' ? `${folder}service-worker.js` : 'assets/[name]-[hash].js';
          },
          chunkFileNames: 'assets/[name]-[hash].js',
          assetFileNames: 'assets/[name]-[hash][extname]',
        },
      },
    },
  };
});
