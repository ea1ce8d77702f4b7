/**
 * `npm run bench:peers`: compares lathe with its peers on the same model and adapter, alternating; prints medians and
 * their ratio. `--json` prints one `PeerFigure` (bench/peers/compare.ts) per line on stdout, and the rest on stderr.
 */
import { parseArgs } from 'node:util';
import { loadAverage } from '../machine.ts';
import { type BenchModel, findModel } from '../models.ts';
import { comparePeers, type PeerFigure, readyPeers } from './compare.ts';
import { type PeerId, peerIds, peers } from './peers.ts';
import { peerText } from './print.ts';

const usage = `npm --prefix bench/peers ci && npm run bench:peers -- [options]
  --peer NAME         can be repeated: ${peerIds.join(', ')} (default: all that can run)
  --model NAME|PATH   can be repeated; names: see npm run bench -- --help. Default:
${peers.map(({ id, models }) => `                        ${id}: ${models.join(', ')}`).join('\n')}
  --web-llm-lib PATH  web-llm's compiled library of Qwen2-0.5B, with q4f16_1 or q4f32_1 in its name
  --quick             few rounds, short answers, the first model of each peer
  --json              one JSON object per figure on stdout
  --adapter NAME      substring of the adapter's name, for lathe and web-llm`;

const { values } = parseArgs({
  options: {
    peer: { type: 'string', multiple: true },
    model: { type: 'string', multiple: true },
    'web-llm-lib': { type: 'string' },
    json: { type: 'boolean', default: false },
    adapter: { type: 'string' },
    quick: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

async function run(): Promise<void> {
  const { quick, adapter } = values;
  const before = loadAverage();
  const logProgress = (what: string) => process.stderr.write(`${what}\n`);
  const options = {
    quick,
    adapter,
    logProgress,
    webLlmLib: values['web-llm-lib'],
    peers: values.peer?.map(parsePeerId),
  };
  const figures: PeerFigure[] = [];
  for (const peer of readyPeers(options)) {
    const names = values.model ?? (quick ? peer.models.slice(0, 1) : peer.models);
    const models: BenchModel[] = [];
    for (const name of names) models.push(await findModel(name));
    const peerFigures = await comparePeers(models, { ...options, peers: [peer.id] });
    figures.push(...peerFigures);
    // Printed immediately, because the next peer may take minutes or fail.
    if (values.json) for (const figure of peerFigures) console.log(JSON.stringify(figure));
  }
  if (!values.json) console.log(peerText(figures));
  logProgress(`load average ${before} before, ${loadAverage()} after (the bench itself adds to it)`);
}

function parsePeerId(name: string): PeerId {
  const id = peerIds.find((peer) => peer === name);
  if (!id) throw new Error(`--peer: expected one of ${peerIds.join(', ')}, got '${name}'`);
  return id;
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
