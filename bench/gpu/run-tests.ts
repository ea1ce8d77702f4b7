/**
 * `node bench/gpu/run-tests.ts FILE [SECONDS]`: runs one test file without vitest's runner, on bench/gpu/test-api.ts.
 * After SECONDS it starts no further test. Prints one JSON object per line: `{start}` before a test, a `TestResult`
 * after it. Exits with 1 when a test failed.
 */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

/** Twice vitest's timeout for these files: this machine may have to compile all kernels. */
const testMs = 240_000;

const api = new URL('./test-api.ts', import.meta.url).href;
registerHooks({
  resolve(specifier, context, next) {
    const replaced = specifier === 'vitest' && context.parentURL !== api;
    return next(replaced ? api : specifier, context);
  },
});

const [file, seconds] = process.argv.slice(2);
if (file === undefined) {
  console.error('usage: node bench/gpu/run-tests.ts FILE [SECONDS]');
  process.exit(2);
}
const untilMs = seconds === undefined ? Infinity : performance.now() + Number(seconds) * 1000;
const printLine = (value: object) => process.stdout.write(`${JSON.stringify(value)}\n`);
const { runCollected } = await import('./run-collected.ts');
await import(pathToFileURL(file).href);
let tests = 0;
let failed = 0;
await runCollected(
  {
    start: (test) => printLine({ start: test }),
    end(result) {
      tests += 1;
      if (result.outcome === 'failed') failed += 1;
      printLine(result);
    },
  },
  { testMs, untilMs },
);
if (tests === 0) console.error(`${file} has no tests`);
// Dawn's instance would keep the process alive.
process.exit(failed > 0 || tests === 0 ? 1 : 0);
