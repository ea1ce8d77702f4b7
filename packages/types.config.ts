import { fileURLToPath } from 'node:url';
import { dts } from 'rolldown-plugin-dts';
import { defineConfig } from 'vite';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The declarations of both packages, in `dist/types`: one file for each export, with every type that it needs. */
export default defineConfig({
  publicDir: false,
  // Declarations are TypeScript before and after.
  oxc: false,
  plugins: [dts({ dtsOnly: true, tsconfig: here('tsconfig.json') })],
  build: {
    outDir: here('../dist/types'),
    emptyOutDir: true,
    rolldownOptions: {
      checks: { pluginTimings: false },
      input: {
        client: here('../src/client/index.ts'),
        lab: here('../src/define-kernel.ts'),
        index: here('../web/engine/package.ts'),
        model: here('../web/engine/package-model.ts'),
      },
      preserveEntrySignatures: 'strict',
      output: { format: 'es', entryFileNames: '[name].ts', chunkFileNames: 'chunks/[name].ts' },
    },
  },
});
