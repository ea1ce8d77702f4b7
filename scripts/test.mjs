/** `npm test [-- VITEST OPTIONS]`: sets up what the tests need, builds, and runs every check of `npm run check`. */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runInForeground } from '../src/platform/foreground.mjs';
import { buildIfNeeded } from './build.mjs';
import { setUpServices } from './setup-services.mjs';
import { setUpVulkan } from './setup-vulkan.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
process.chdir(root);
process.env.LATHE_TEST_BUILT = '1';
process.env.PATH = `${join(root, 'node_modules/.bin')}${delimiter}${process.env.PATH ?? ''}`;
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'));

/** Runs a script of package.json as npm does. */
const shell = (line) =>
  process.platform === 'win32'
    ? runInForeground('cmd.exe', ['/d', '/s', '/c', line])
    : runInForeground('sh', ['-c', line]);

const asked = process.argv.slice(2);
const vitest = (options, how) =>
  runInForeground(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', ...options], how);
/** At least two workers: many tests wait for processes to start or end, which would leave a core idle. */
const workers = `--maxWorkers=${Math.max(2, availableParallelism() - 1)}`;
/**
 * Test files that need the adapter run one at a time, which leaves a core idle. Therefore two queues of about the same
 * length run in parallel. With options on the command line vitest runs as it does by default.
 */
const queues = [[['gpu', 'hosts']], [['unit', 'http'], ['browser']]];
let stopped = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    stopped = true;
  });
}
const runQueue = async (queue, how) => {
  const failed = [];
  for (const projects of queue) {
    if (stopped) break;
    const options = projects.flatMap((project) => ['--project', project]);
    const code = await vitest(projects.includes('unit') ? [...options, workers] : options, how);
    if (code !== 0) failed.push({ projects, code });
  }
  return failed;
};
const runTests = async () => {
  if (asked.length > 0) return await vitest(asked);
  const failed = (
    await Promise.all(queues.map((queue, index) => runQueue(queue, { hold: index > 0 })))
  ).flat();
  for (const { projects, code } of failed) {
    process.stderr.write(`== tests of ${projects.join(' and ')}: failed (exit code ${code})\n`);
  }
  return failed[0]?.code ?? 0;
};
const steps = [
  { name: 'format and lint', run: () => shell(scripts.lint) },
  { name: 'types', run: () => shell(scripts.types) },
  { name: 'unused code', run: () => shell('knip') },
  { name: 'tests', run: runTests },
];

if (!setUpVulkan() || !setUpServices() || !buildIfNeeded()) process.exit(1);
for (const { name, run } of steps) {
  process.stdout.write(`\n== ${name}\n`);
  const code = await run();
  if (code !== 0) {
    process.stderr.write(`== ${name}: failed (exit code ${code})\n`);
    process.exit(code);
  }
}
