import { defineConfig } from 'vitest/config';

/** Files of `test/http` that start hosts with a model on the adapter. */
const withModel = (
  'access agent-full-disk agent-load agent-tasks-resident command compatibility control-plane crowd draft-model host ' +
  'lab-host lab-tool llama-cpp-host models ollama-client openai-host planes quantize swap-host tutorials'
)
  .split(' ')
  .map((name) => `test/http/${name}.test.ts`);

/**
 * A limit here only ends what hangs: a test that passes waits for events, and a busy machine may be slow with them. With an
 * empty shader cache the software adapter compiles one matmul for a minute on a busy machine.
 */
const limits = { testTimeout: 600_000, hookTimeout: 600_000, expect: { poll: { timeout: 120_000 } } };
const adapterLimits = {
  testTimeout: 1_200_000,
  hookTimeout: 1_200_000,
  expect: { poll: { timeout: 300_000 } },
};

// `gpu`, `hosts` and `browser` own the adapter, so each runs in one worker, one file at a time.
export default defineConfig({
  test: {
    teardownTimeout: 120_000,
    globalSetup: ['test/support/postgres-setup.ts', 'test/support/compile-cache-setup.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          environment: 'node',
          // A third of the time went into loading the same modules again for every file.
          isolate: false,
          ...limits,
        },
      },
      {
        test: {
          name: 'gpu',
          include: ['test/gpu/**/*.test.ts', 'test/golden/**/*.test.ts'],
          environment: 'node',
          fileParallelism: false,
          ...adapterLimits,
        },
      },
      {
        test: {
          name: 'hosts',
          include: withModel,
          environment: 'node',
          fileParallelism: false,
          ...adapterLimits,
        },
      },
      {
        test: {
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          environment: 'node',
          fileParallelism: false,
          ...adapterLimits,
        },
      },
      {
        test: {
          name: 'http',
          include: ['test/http/**/*.test.ts'],
          exclude: withModel,
          environment: 'node',
          ...limits,
        },
      },
    ],
  },
});
