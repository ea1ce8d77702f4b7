/**
 * `node bench/gpu/run.ts --out FOLDER`: measures and tests a GPU in one run. Writes FOLDER/gpu.json (a `GpuReport`)
 * after each stage, and the output of the stages to FOLDER/log.txt. A stage that fails or times out is recorded, and
 * the next ones run. bench/gpu/bundle.sh packs everything for a bare machine.
 */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import type { PeerFigure } from '../peers/compare.ts';
import type { BenchReport } from '../report.ts';
import { FileTally, type GpuReport, mergeBenchReports } from './gpu-report.ts';
import { runStage, type StageResult } from './stage.ts';

const stageNames = ['facts', 'correctness', 'bench', 'peers'] as const;
const fullModels = ['tiny', 'smollm2-135m-q4_0', 'llama3.2-1b-q4_0', 'llama3.1-8b-q4_0', 'llama3.2-3b-q4_0'];
const quickModels = ['tiny'];

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    stages: { type: 'string', default: stageNames.join(',') },
    models: { type: 'string' },
    minutes: { type: 'string', default: '9' },
    'test-minutes': { type: 'string', default: '3' },
    jobs: { type: 'string', default: String(Math.max(1, Math.min(12, availableParallelism() - 4))) },
    adapter: { type: 'string' },
    'dawn-features': { type: 'string' },
    quick: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const usage = `run.sh --out FOLDER [options]
  --stages LIST    of ${stageNames.join(',')} (default: all)
  --models LIST    (default: ${fullModels.join(',')})
  --minutes N      total time (default: 9); stages that do not fit are skipped
  --test-minutes N time for the tests (default: 3); those that do not fit are skipped
  --jobs N         test files that run at a time (default: the cores less four, at most 12)
  --quick          only the kernel tests, few rounds, ${quickModels.join(',')}
  --adapter NAME   substring of the adapter's name, for lathe
  --dawn-features LIST  of Dawn, for the benches`;

const { quick } = values;
if (values.help || values.out === undefined) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}
const out = resolve(values.out);
const root = fileURLToPath(new URL('../..', import.meta.url));
process.chdir(root);
mkdirSync(out, { recursive: true });
const requestedStages = new Set(values.stages.split(','));
const models = values.models?.split(',') ?? (quick ? quickModels : fullModels);
const adapter = values.adapter === undefined ? [] : ['--adapter', values.adapter];
const dawnFeatures =
  values['dawn-features'] === undefined ? [] : ['--dawn-features', values['dawn-features']];
const quickArgs = quick ? ['--quick'] : [];
const deadline = performance.now() + Number(values.minutes) * 60_000;
const commitFile = join(root, 'commit');

const report: GpuReport = {
  schema: 'lathe-gpu/1',
  date: new Date().toISOString(),
  quick,
  ...(existsSync(commitFile) ? { commit: readFileSync(commitFile, 'utf8').trim() } : {}),
  machine: await describeMachine(),
  driver: driverText(),
  stages: [],
  correctness: [],
  peers: [],
};
const save = () => {
  const path = join(out, 'gpu.json');
  writeFileSync(`${path}.part`, `${JSON.stringify(report, undefined, 1)}\n`);
  renameSync(`${path}.part`, path);
};
const log = (text: string) => {
  console.log(text);
  appendFileSync(join(out, 'log.txt'), `${text}\n`);
};

/** Runs one script as a stage, records its result, and saves the report. */
async function stage(
  name: string,
  script: string,
  args: readonly string[],
  seconds: number,
  onLine: (line: string) => void = () => undefined,
): Promise<void> {
  const remainingMs = deadline - performance.now();
  const finish = (result: StageResult) => {
    report.stages.push(result);
    log(`== ${name}: ${result.outcome}, ${result.seconds} s`);
    if (result.outcome === 'failed') log(result.note ?? '');
    save();
  };
  if (remainingMs < 5000) {
    finish({ stage: name, outcome: 'skipped', seconds: 0, note: 'no time left' });
    return;
  }
  const command = [process.execPath, script, ...args];
  finish(
    await runStage(name, command, {
      limitMs: Math.round(Math.min(seconds * 1000, remainingMs)),
      onLine(line) {
        // Passed and skipped tests are counted in the report, not logged.
        if (!/^\{"start"|"outcome":"(passed|skipped)"/.test(line)) log(line);
        onLine(line);
      },
    }),
  );
}

save();
if (requestedStages.has('facts')) {
  await stage(
    'facts',
    'bench/gpu/facts.ts',
    values.adapter === undefined ? [] : [values.adapter],
    60,
    (line) => {
      report.facts = JSON.parse(line) as unknown;
    },
  );
}
// Runs in parallel to the tests, which use little CPU and are not timed.
const modelsStage =
  requestedStages.has('bench') || requestedStages.has('peers')
    ? stage('models', 'bench/gpu/make-models.ts', models, 300)
    : Promise.resolve();
if (requestedStages.has('correctness')) {
  const testFiles = globSync(quick ? 'test/gpu/kernels/*.test.ts' : 'test/{gpu,golden}/**/*.test.ts').sort();
  const testDeadline = performance.now() + Number(values['test-minutes']) * 60_000;
  const bySize = testFiles.toSorted((a, b) => statSync(b).size - statSync(a).size);
  const runNext = async (): Promise<void> => {
    const file = bySize.shift();
    if (file === undefined) return;
    const tally = new FileTally(file);
    // The script stops by itself before its stage times out, so that it can report skipped tests.
    const seconds = Math.max(0, (testDeadline - performance.now()) / 1000);
    const args = [file, String(quick ? Math.min(12, seconds) : seconds)];
    await stage(`correctness ${file}`, 'bench/gpu/run-tests.ts', args, seconds + 30, (line) => {
      tally.addLine(line);
    });
    report.correctness.push(tally.result());
    save();
    await runNext();
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, runNext));
}
await modelsStage;
if (requestedStages.has('bench')) {
  const benches: BenchReport[] = [];
  for (const model of models) {
    const path = join(tmpdir(), `lathe-bench-${process.pid}.json`);
    await stage(
      `bench ${model}`,
      'bench/run.ts',
      ['--model', model, '--json', path, ...quickArgs, ...adapter, ...dawnFeatures],
      300,
    );
    if (report.stages.at(-1)?.outcome !== 'ok') continue;
    benches.push(JSON.parse(readFileSync(path, 'utf8')) as BenchReport);
    rmSync(path);
    report.bench = mergeBenchReports(benches);
    save();
  }
}
if (requestedStages.has('peers')) {
  for (const model of models) {
    const args = ['--peer', 'llama.cpp', '--model', model, '--json', ...quickArgs, ...adapter];
    await stage(`peers ${model}`, 'bench/peers/run.ts', args, 300, (line) => {
      report.peers.push(JSON.parse(line) as PeerFigure);
    });
  }
}
const notOk = report.stages.filter(({ outcome }) => outcome !== 'ok');
const count = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
const passed = count(report.correctness.map((file) => file.passed));
const failed = count(report.correctness.map((file) => file.failures.length));
const skipped = count(report.correctness.flatMap((file) => Object.values(file.skipped)));
log(
  `${report.stages.length} stages, ${notOk.length} not ok; tests: ${passed} passed, ${failed} failed, ${skipped} skipped`,
);
process.exit(notOk.length > 0 ? 1 : 0);

/** Output of the driver's query tool. The query changes no setting. */
function driverText(): string {
  const query = 'name,driver_version,memory.total,clocks.sm,clocks.mem,pcie.link.gen.current';
  try {
    return execFileSync('nvidia-smi', [`--query-gpu=${query}`, '--format=csv'], {
      encoding: 'utf8',
      timeout: 20_000,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } catch {
    return `no nvidia-smi; Vulkan drivers: ${process.env['VK_DRIVER_FILES'] ?? 'as the loader finds them'}`;
  }
}
