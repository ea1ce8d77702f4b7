import { defineConfig } from 'vitest/config';

/** Of `test/http`: those that start hosts with a model on the adapter. */
const withModel = (
  'access agent-full-disk agent-load agent-tasks-resident agent-tour command compatibility control-plane crowd draft-model host ' +
  'lab-host lab-tool llama-cpp-host models ollama-client openai-host planes quantize swap-host'
)
  .split(' ')
  .map((name) => `test/http/${name}.test.ts`);

/** Processes start and stop in these, and a loaded machine takes its time over that. */
const poll = { poll: { timeout: 20_000 } };
const patience = { testTimeout: 120_000, hookTimeout: 120_000, expect: poll };

// `gpu`, `hosts` and `browser` own the adapter, so each runs in one worker, one file at a time.
export default defineConfig({
  test: {
    globalSetup: ['test/support/postgres-setup.ts', 'test/support/compile-cache-setup.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          environment: 'node',
          // A third of the time went into loading the same modules again for every file.
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: poll,
        },
      },
      {
        test: {
          name: 'gpu',
          include: ['test/gpu/**/*.test.ts', 'test/golden/**/*.test.ts'],
          environment: 'node',
          fileParallelism: false,
          ...patience,
        },
      },
      {
        test: {
          name: 'hosts',
          include: withModel,
          environment: 'node',
          fileParallelism: false,
          ...patience,
        },
      },
      {
        test: {
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          environment: 'node',
          fileParallelism: false,
          ...patience,
        },
      },
      {
        test: {
          name: 'http',
          include: ['test/http/**/*.test.ts'],
          exclude: withModel,
          environment: 'node',
          ...patience,
        },
      },
    ],
  },
});
