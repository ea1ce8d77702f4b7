import { defineConfig } from 'vitest/config';

// `gpu` owns the adapter, so it runs in one worker, one file at a time.
export default defineConfig({
  test: {
    globalSetup: ['test/support/postgres-setup.ts'],
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], environment: 'node' } },
      {
        test: {
          name: 'gpu',
          include: ['test/gpu/**/*.test.ts', 'test/golden/**/*.test.ts'],
          environment: 'node',
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'http',
          include: ['test/http/**/*.test.ts'],
          environment: 'node',
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
