/**
 * What guessing (prompt lookup) gains and costs on the embedded model: the same answers with and without, by turns, in
 * one process. The prompts are texts, because random ids have nothing to guess from; an answer drawn at temperature 1
 * hardly repeats itself and shows the cost.
 */
import { greedy, loadEngine, type ResidentEngine } from '../src/engine/index.ts';
import { benchPlatform } from './platform.ts';
import { median } from './statistics.ts';

const story =
  'Once upon a time there was a little cat named Tom. Tom liked to play with a red ball in the garden.';
const cases = [
  { name: 'a drawn story', text: story, temperature: 1 },
  { name: 'a greedy story', text: story, temperature: 0 },
  { name: 'text that repeats itself', text: `${story}\n`.repeat(8), temperature: 0 },
];
const rounds = Number(process.argv[2] ?? 9);
const tokens = 200;

const load = async (speculation: 'off' | 'auto') =>
  await loadEngine(benchPlatform(), { model: 'models/lathe-tiny-q8_0.gguf', speculation, parallel: 1 });
const engines = { off: await load('off'), auto: await load('auto') };

async function rate(
  engine: ResidentEngine,
  text: string,
  temperature: number,
  seed: number,
): Promise<number> {
  const prompt = [...engine.tokenizer.encode(text)];
  for await (const event of engine.generate({
    prompt,
    maxTokens: tokens,
    sampling: { ...greedy, temperature, seed },
    stop: [],
    ignoreEnd: true,
  })) {
    if (event.type === 'end') return ((tokens - 1) * 1000) / event.timings.decode_ms;
  }
  throw new Error('the engine ended an answer without its last event');
}

for (const { name, text, temperature } of cases) {
  const rates: { off: number[]; auto: number[] } = { off: [], auto: [] };
  for (let round = 0; round <= rounds; round++) {
    for (const mode of ['off', 'auto'] as const) {
      const one = await rate(engines[mode], text, temperature, round);
      if (round > 0) rates[mode].push(one);
    }
  }
  const [off, auto] = [median(rates.off), median(rates.auto)];
  const ratio = median(rates.auto.map((one, index) => one / rates.off[index]!));
  console.log(
    `${name}: ${off.toFixed(0)} tokens/s without, ${auto.toFixed(0)} with, ratio ${ratio.toFixed(2)}`,
  );
}
await Promise.all(Object.values(engines).map(async (engine) => await engine.close()));
