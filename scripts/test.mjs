/**
 * The test commands: sets up what the tests need, builds, and runs the checks and tests of a tier (docs/testing.md).
 *
 *     npm test                     everything needed to trust a change
 *     npm test -- FILE ...         these tests alone, all of their cases; any options of vitest
 *     npm run test:fast            format, lint, types, and unit tests that start no process
 *     npm run test:all             every case, database and kernel variant
 *     npm run test:rest            what test:all has beyond npm test
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runInForeground } from '../src/platform/foreground.mjs';
import { buildIfNeeded } from './build.mjs';
import { setUpServices } from './setup-services.mjs';
import { setUpVulkan } from './setup-vulkan.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
process.chdir(root);
process.env.LATHE_TEST_BUILT = '1';
process.env.PATH = `${join(root, 'node_modules/.bin')}${delimiter}${process.env.PATH ?? ''}`;
// The linter and the type checker are Go programs: with a larger heap they collect garbage less often, which takes a quarter of
// the processor time off.
process.env.GOGC ??= '400';
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'));

const [first, ...others] = process.argv.slice(2);
const tier = first?.startsWith('--tier=') ? first.slice('--tier='.length) : 'default';
const options = first === undefined || first.startsWith('--tier=') ? others : [first, ...others];
// Chosen tests run with all of their cases.
process.env.LATHE_TEST_TIER = options.length > 0 ? 'all' : tier;

/** Runs a script of package.json as npm does. */
const shell = (line, how) =>
  process.platform === 'win32'
    ? runInForeground('cmd.exe', ['/d', '/s', '/c', line], how)
    : runInForeground('sh', ['-c', line], how);
const vitest = (args, how) =>
  runInForeground(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', ...args], how);
/** More workers than cores: many tests wait for processes to start or end, which would leave a core idle. */
const workers = `--maxWorkers=${availableParallelism() + 1}`;

const check = (name, line) => ({ name, run: (how) => shell(line, how) });
/** Results of the last run, one JSON file for each step: what failed, and how long each file took. */
const resultsFolder = 'node_modules/.cache/lathe-tests';
const tests = (...projects) => {
  const results = join(resultsFolder, `${projects.join('-')}.json`);
  return {
    name: `tests of ${projects.join(' and ')}`,
    results,
    run: (how) =>
      vitest(
        [
          ...projects.flatMap((project) => ['--project', project]),
          ...(projects.includes('unit') ? [workers] : []),
          '--reporter=default',
          '--reporter=json',
          `--outputFile.json=${results}`,
        ],
        how,
      ),
  };
};
/**
 * Names of tests of variants of a size: without those that have no subgroups, and at 16 without packed products, which the adapter
 * compiles for a minute.
 */
const sizePattern = (lanes) =>
  `^(?!.*SUBGROUPS=false)${lanes === 16 ? '(?!.*TILE_BLOCKS)' : ''}.*(LANES|WG)=${lanes}( |:|$)`;
/**
 * Kernels with subgroups of other sizes than the adapter's: lavapipe has those of its vectors. Each result is compared with the
 * emulator's. The shader cache does not tell these sizes apart.
 */
const subgroupSizes = [4, 8, 16].map((lanes) => ({
  name: `kernels in subgroups of ${lanes}, on the adapter and emulated`,
  run: (how) =>
    vitest(['--project', 'kernels', 'test/gpu/kernels', '-t', sizePattern(lanes)], {
      ...how,
      env: {
        LP_NATIVE_VECTOR_WIDTH: String(lanes * 32),
        MESA_SHADER_CACHE_DISABLE: 'true',
        // Those of the usual size are compiled as the product compiles them.
        ...(lanes === 8 ? {} : { GALLIVM_PERF: 'nopt' }),
        LATHE_TEST_KERNELS: 'compared',
        LATHE_TEST_TIER: 'fast',
        LATHE_TEST_SUBGROUPS: 'all',
      },
    }),
}));
const races = {
  name: 'races in kernels, emulated',
  run: (how) =>
    // Subgroups of 8 and 32: less than a workgroup, and all of most.
    vitest(
      ['--project', 'kernels', 'test/gpu/kernels', '-t', '^(?!.*LANES=(4|16|64)( |:|$)).*equals? the oracle'],
      {
        ...how,
        env: { LATHE_TEST_KERNELS: 'emulated', LATHE_TEST_RACES: 'true', LATHE_TEST_TIER: 'fast' },
      },
    ),
};
const checks = [
  check('format and lint', scripts.lint),
  check('types', scripts.types),
  check('unused code', 'knip'),
];

/**
 * Groups of steps, of which two run in parallel: test files that need the adapter run one at a time, which would leave a core
 * idle. A group that is done makes room for the next one.
 */
const groups = {
  fast: [[tests('unit')], [...checks.slice(0, 2), tests('kernels')]],
  default: [
    [...checks, tests('unit', 'http')],
    [tests('kernels')],
    [tests('browser')],
    [tests('gpu')],
    [tests('hosts')],
  ],
  rest: [
    [tests('kernels')],
    [tests('unit', 'http')],
    [...subgroupSizes, races],
    [tests('gpu')],
    [tests('browser')],
    [tests('hosts')],
  ],
};
groups.all = [...groups.default, [...subgroupSizes, races]];
if (!(tier in groups)) {
  process.stderr.write(`--tier: expected one of ${Object.keys(groups).join(', ')}, got '${tier}'\n`);
  process.exit(2);
}

let stopped = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    stopped = true;
  });
}
const pending = [...(groups[tier] ?? [])];
const failed = [];
/** Seconds of each step, of which two run side by side. */
const times = [];
const secondsSince = (start) => Math.round((performance.now() - start) / 1000);
const runGroups = async (how) => {
  for (let group = pending.shift(); group && !stopped; group = pending.shift()) {
    for (const step of group) {
      if (stopped) break;
      process.stdout.write(`\n== ${step.name}\n`);
      const start = performance.now();
      const code = await step.run(how);
      times.push(`${step.name} ${secondsSince(start)} s`);
      if (code === 0) continue;
      failed.push({ ...step, code });
      report({ ...step, code });
    }
  }
};
const report = ({ name, code, results }) => {
  process.stderr.write(`== ${name}: failed (exit code ${code})\n`);
  for (const line of results === undefined ? [] : failuresIn(results)) process.stderr.write(`   ${line}\n`);
};
/** Each failed test of a step: its file, its name and the start of its message. */
function failuresIn(results) {
  let files;
  try {
    files = JSON.parse(readFileSync(results, 'utf8')).testResults;
  } catch {
    // A run that was killed wrote no results.
    return [];
  }
  const failures = files.flatMap(({ name, status, message, assertionResults }) => {
    const failedTests = assertionResults.filter((test) => test.status === 'failed');
    const file = relative(root, name);
    if (failedTests.length === 0)
      return status === 'failed' ? [`${file}: ${message || 'a hook failed, see above'}`] : [];
    return failedTests.map(
      (test) =>
        `${file} > ${test.fullName}\n      ${(test.failureMessages[0] ?? '').split('\n    at file:')[0].slice(0, 600)}`,
    );
  });
  return failures.length > 0 ? failures : ["no test failed: search the output above for 'Unhandled'"];
}

/** The tests of the packages are of these tiers; a file of them builds what it needs. */
const withPackages = options.length === 0 && (tier === 'rest' || tier === 'all');
if (!setUpVulkan() || !setUpServices() || !buildIfNeeded({ withTests: true, withPackages })) process.exit(1);
if (options.length > 0) process.exit(await vitest(options));
rmSync(resultsFolder, { recursive: true, force: true });
mkdirSync(resultsFolder, { recursive: true });
const begin = performance.now();
// The output of the second is shown when a step ends, so that the two do not mix.
await Promise.all([runGroups({}), runGroups({ hold: true })]);
// Once more, because tests that ran after it may have scrolled it away.
for (const failure of failed) report(failure);
process.stdout.write(`\n== ${tier}: ${secondsSince(begin)} s (${times.join(', ')})\n`);
process.exit(failed[0]?.code ?? 0);
