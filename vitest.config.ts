import { globSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import { tier } from './test/support/tier.ts';

const named = (folder: string, names: string) =>
  names.split(' ').map((name) => `test/${folder}/${name}.test.ts`);

/** Files of `test/http` that start hosts with a model on the adapter. */
const withModel = (
  'access agent-full-disk agent-load agent-tasks-resident command compatibility control-plane crowd draft-model ' +
  'embedding-model-host fairness-host host lab-host lab-search-live lab-tool llama-cpp-host metrics-host models ollama-client ' +
  'open-responses openai-host packages planes quantize rerank-host resident-models-host swap-host tutorials'
).split(' ');

/** Files that only `npm run test:all` runs: further databases, large loads, and models that other tests run elsewhere. */
const restOnly = [
  ...named(
    'http',
    'agent-load agent-postgres crowd gateway-real-hosts gateway-replicas lab-search-live packages',
  ),
  ...named('browser', 'architectures packages'),
];

/** Unit tests that `npm run test:fast` leaves out: they start processes, or take more than about two seconds. */
const slowUnits = named(
  'unit',
  'agent-mcp agent-mcp-processes agent-tools-command agent-tools-files agent-tools-paths agent-tools-race bench-gpu ' +
    'external-sessions-lifecycle feed gateway-access-credentials gateway-ledger gateway-ledger-interleavings ' +
    'gateway-ledger-kills gguf-fuzz grammar-limits grammar-random-schemas grammar-schema-suites grammar-worker ' +
    'host-key hostile-places lab-config-validate observe-docs observe-open observe-readers observe-surfaces ' +
    'observe-untouched planned-variants pull recorder-core recorder-kills recorder-random recorder-retention reference-model ' +
    'scheduler setup-node store-full-disk store-kills store-postgres store-sqlite telemetry-loading telemetry-otlp ' +
    'tier tokenizer tokenizer-adversarial tokenizer-split tokenizer-vectors web-demo-page wgsl-lint',
);

/** In tier `rest`, only files that have more than `npm test` runs: they import `tier.ts` or have further databases. */
const hasMore = (file: string) =>
  restOnly.includes(file) || /support\/tier\.ts'|describeDatabases\(/.test(readFileSync(file, 'utf8'));

/** The files of a project that run in this tier. Patterns stay patterns where all files run: vitest prints them. */
function filesOf(pattern: string, excluded: readonly string[] = []) {
  if (tier === 'all') return { include: [pattern], exclude: [...excluded] };
  const files = globSync(pattern).filter((file) => !excluded.includes(file));
  const runs = tier === 'rest' ? hasMore : (file: string) => !restOnly.includes(file);
  return { include: files.filter(runs) };
}

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

/** Files that compile many kernels and run each on little data. */
const kernelTests =
  tier === 'fast'
    ? 'test/gpu/kernels/*.test.ts'
    : 'test/{gpu/{kernels/*,damaged-weights,embedding,experts,lab-ops,mlc,verification,weight-types},golden/{architectures,windows}}.test.ts';

/**
 * The software adapter (Mesa's llvmpipe) compiles in half the time without LLVM's optimization passes, and computes in twice the
 * time: for tests that run many kernels on little data.
 */
const compiledFast = process.env['LATHE_TEST_KERNELS'] === 'compared' ? {} : { GALLIVM_PERF: 'nopt' };

/** Tests on the adapter: in one worker, which loads modules once, one file at a time. */
const adapterTests = {
  environment: 'node',
  fileParallelism: false,
  isolate: false,
  ...adapterLimits,
} as const;

// Files of a project share their workers' modules (`isolate: false`): loading them again for every file took more than a second
// of processor time each. A test undoes what it changes outside of its file: environment, timers, globals.
export default defineConfig({
  test: {
    teardownTimeout: 120_000,
    // A suite whose cases all run in `npm test` is empty in the rest.
    passWithNoTests: tier === 'rest',
    globalSetup: ['test/support/postgres-setup.ts', 'test/support/compile-cache-setup.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          ...filesOf('test/unit/**/*.test.ts', tier === 'fast' ? slowUnits : []),
          environment: 'node',
          isolate: false,
          ...limits,
        },
      },
      {
        test: {
          name: 'kernels',
          ...filesOf(kernelTests),
          env: compiledFast,
          ...adapterTests,
        },
      },
      {
        test: {
          name: 'gpu',
          ...filesOf('test/{gpu,golden}/**/*.test.ts', globSync(kernelTests)),
          ...adapterTests,
        },
      },
      {
        test: {
          name: 'hosts',
          ...filesOf(`test/http/{${withModel.join(',')}}.test.ts`),
          ...adapterTests,
        },
      },
      {
        test: {
          name: 'browser',
          ...filesOf('test/browser/**/*.test.ts'),
          ...adapterTests,
        },
      },
      {
        test: {
          name: 'http',
          ...filesOf('test/http/**/*.test.ts', named('http', withModel.join(' '))),
          environment: 'node',
          isolate: false,
          env: compiledFast,
          ...limits,
        },
      },
    ],
  },
});
