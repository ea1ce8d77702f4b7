/**
 * `npm run bench:peers`: lathe and llama.cpp's Vulkan backend on the same GGUF and adapter, by turns; medians and
 * their ratio. `--json` prints one `PeerFigure` (bench/peers/compare.ts) a line on stdout, the rest on stderr.
 */
import { parseArgs } from 'node:util';
import { loadAverage } from '../machine.ts';
import { documentedModels, findModel } from '../models.ts';
import { comparePeers } from './compare.ts';
import { peerText } from './print.ts';

const usage = `npm --prefix bench/peers ci && npm run bench:peers -- [options]
  --model NAME|PATH  may be given several times (default: ${documentedModels.join(', ')})
                     names: see npm run bench -- --help
  --quick            few rounds, short answers
  --json             one JSON object a figure on stdout
  --adapter NAME     a part of the adapter's name, for lathe`;

const { values } = parseArgs({
  options: {
    model: { type: 'string', multiple: true },
    json: { type: 'boolean', default: false },
    adapter: { type: 'string' },
    quick: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

async function run(): Promise<void> {
  const { quick, adapter } = values;
  const before = loadAverage();
  const found = [];
  for (const name of values.model ?? (quick ? ['tiny'] : documentedModels)) found.push(await findModel(name));
  const say = (what: string) => process.stderr.write(`${what}\n`);
  const figures = await comparePeers(found, { quick, adapter, say });
  if (values.json) for (const figure of figures) console.log(JSON.stringify(figure));
  else console.log(peerText(figures));
  say(`load average ${before} before, ${loadAverage()} after (the bench itself adds to it)`);
}

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
