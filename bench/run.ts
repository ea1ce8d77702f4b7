/**
 * `npm run bench`: measures the engine on this machine's adapter and where its time goes. Prints tables; `--json FILE`
 * also writes a `BenchReport` (bench/report.ts). See docs/performance.md.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import type { AdapterFacts } from '../src/engine/index.ts';
import { figuresOf } from './figures.ts';
import { describeMachine, loadAverage, versions } from './machine.ts';
import { fullEffort, measureModel, quickEffort, sizeEffort } from './measure.ts';
import {
  type BenchModel,
  documentedModels,
  findModel,
  largeModels,
  modelNames,
  sizeModels,
} from './models.ts';
import { measureOverhead } from './overhead.ts';
import { comparePeers } from './peers/compare.ts';
import { peerText } from './peers/print.ts';
import { readDawnFeatures } from './platform.ts';
import { figuresText, headText, modelText } from './print.ts';
import type { BenchReport, ModelFigures } from './report.ts';
import { measureStartUp } from './start-up.ts';

const usage = `npm run bench -- [options]
  --model NAME|PATH  can be repeated: the path of a GGUF file, or a name:
                     ${modelNames}
                     (default: ${documentedModels.join(', ')},
                     and ${sizeModels.join(', ')}; with --quick: tiny)
  --large            also measure ${largeModels.join(', ')}
  --quick            few rounds and short answers, for trying things out
  --json FILE        write the figures to FILE
  --peers            also measure llama.cpp on the same files (first: npm --prefix bench/peers ci)
  --adapter NAME     substring of the adapter's name
  --dawn-features L  features of Dawn to enable, separated by commas`;

const { values } = parseArgs({
  options: {
    model: { type: 'string', multiple: true },
    json: { type: 'string' },
    adapter: { type: 'string' },
    'dawn-features': { type: 'string' },
    quick: { type: 'boolean', default: false },
    large: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

async function run(): Promise<void> {
  const { quick, adapter: adapterName } = values;
  const sizes = [...(quick ? [] : sizeModels), ...(values.large ? largeModels : [])];
  const requestedNames = values.model ?? (quick ? ['tiny'] : documentedModels);
  const names = values.model ? requestedNames : [...requestedNames, ...sizes];
  const dawnFeatures = readDawnFeatures(values['dawn-features']);
  const before = loadAverage();
  const models: ModelFigures[] = [];
  let adapter: AdapterFacts | undefined;
  const foundModels = [];
  for (const name of names) foundModels.push(await findModel(name));
  for (const model of foundModels) {
    const logProgress = (what: string) => process.stderr.write(`${model.name}: ${what}\n`);
    const effort = quick ? quickEffort : requestedNames.includes(model.name) ? fullEffort : sizeEffort;
    const measured = await measureModel(model, { adapter: adapterName, dawnFeatures, effort, logProgress });
    adapter = measured.adapter;
    models.push(measured.figures);
    console.log(`${modelText(measured.figures)}\n`);
  }
  if (!adapter) throw new Error('no model to measure');
  const logProgress = (what: string) => process.stderr.write(`${what}\n`);
  const embedded = foundModels.find(({ name }) => name === 'tiny');
  const host = embedded ? await measureHost(embedded, { quick, adapter: adapterName, logProgress }) : {};
  const peers = values.peers
    ? await comparePeers(
        foundModels.filter(({ name }) => requestedNames.includes(name)),
        { quick, adapter: adapterName, logProgress },
      )
    : undefined;
  const report: BenchReport = {
    schema: 'lathe-bench/1',
    date: new Date().toISOString(),
    quick,
    versions: await versions(),
    machine: await describeMachine(),
    loadAverage: { before, after: loadAverage() },
    adapter,
    models,
    ...host,
    figures: figuresOf({ adapter, models, ...host }),
    ...(peers ? { peers } : {}),
  };
  if (peers) console.log(`${peerText(peers)}\n`);
  console.log(figuresText(report));
  console.log(headText(report));
  if (values.json === undefined) return;
  await mkdir(dirname(values.json), { recursive: true });
  await writeFile(values.json, `${JSON.stringify(report, roundNumbers, 1)}\n`);
}

/** Measures the overhead and the start of the host, in separate processes. */
async function measureHost(
  { path }: BenchModel,
  options: { quick: boolean; adapter: string | undefined; logProgress: (what: string) => void },
): Promise<Required<Pick<BenchReport, 'overhead' | 'startUp'>>> {
  const { quick, adapter, logProgress } = options;
  logProgress('host overhead');
  const overhead = await measureOverhead(path, { adapter, requests: quick ? 5 : 20 });
  logProgress('start to first text');
  return { overhead, startUp: await measureStartUp({ adapter, rounds: quick ? 2 : 5 }) };
}

/** Rounds to four decimals, which is more than the accuracy of any figure. */
const roundNumbers = (_key: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toFixed(4)) : value;

if (values.help) {
  console.log(usage);
} else {
  try {
    await run();
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
// Dawn's instance would keep the process alive.
process.exit();
