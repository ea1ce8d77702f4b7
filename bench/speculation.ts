/**
 * Gain and cost of speculative decoding: the same answers with and without it, alternating in one process.
 *
 * Prompt lookup is measured on the embedded model. The prompts are text, because random ids give no drafts; an answer
 * sampled at temperature 1 rarely repeats itself and shows the cost.
 *
 * Draft models are measured on two pairs: a target with the shape of SmolLM2-135M and a draft with two of its 30
 * layers. In one pair the other 28 layers have no effect, so both models sample the same tokens, which is the maximum
 * gain. In the other pair the weights are unrelated, which is the maximum loss. Answers are sampled at temperature 1,
 * so that prompt lookup finds nothing.
 */
import { greedySampling, loadEngine, type ResidentEngine } from '../src/engine/index.ts';
import { findModel } from './models.ts';
import { benchPlatform } from './platform.ts';
import { median } from './statistics.ts';

const story =
  'Once upon a time there was a little cat named Tom. Tom liked to play with a red ball in the garden.';
const cases = [
  { name: 'a sampled story', text: story, temperature: 1 },
  { name: 'a greedy story', text: story, temperature: 0 },
  { name: 'text that repeats itself', text: `${story}\n`.repeat(8), temperature: 0 },
];
const rounds = Number(process.argv[2] ?? 9);
const tokens = 200;

const load = async (speculation: 'off' | 'auto', model = 'models/lathe-tiny-q8_0.gguf', draft?: string) =>
  await loadEngine(benchPlatform(), {
    model,
    speculation,
    parallel: draft === undefined && model.includes('lathe-tiny') ? 1 : 4,
    ...(draft === undefined ? {} : { draft }),
  });
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
    sampling: { ...greedySampling, temperature, seed },
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

const answerTokens = 100;

/** Time in ms from the start of `count` parallel requests, sampled at temperature 1, to the end of the last answer. */
async function timeAnswers(engine: ResidentEngine, round: number, count: number): Promise<number> {
  const startedAt = performance.now();
  const runOne = async (index: number) => {
    const seed = round * 100 + index;
    const prompt = Array.from({ length: 64 }, (_, at) => (at * at * 31 + seed * 977 + at) % 49_000);
    const sampling = { ...greedySampling, temperature: 1, seed };
    const request = { prompt, maxTokens: answerTokens, sampling, stop: [], ignoreEnd: true };
    for await (const event of engine.generate(request)) if (event.type === 'end') return;
  };
  await Promise.all(Array.from({ length: count }, (_, index) => runOne(index)));
  return performance.now() - startedAt;
}

async function compare(name: string, model: string, draft: string): Promise<void> {
  const pair = {
    off: await load('off', model),
    auto: await load('auto', model, draft),
  };
  for (const count of [1, 4]) {
    const times: { off: number[]; auto: number[] } = { off: [], auto: [] };
    for (let round = 0; round < rounds; round++) {
      // Alternates, so that other load on the machine affects both modes.
      const order = round % 2 === 0 ? (['off', 'auto'] as const) : (['auto', 'off'] as const);
      for (const mode of order) times[mode].push(await timeAnswers(pair[mode], round * 10 + count, count));
    }
    const tokensPerSecond = (list: readonly number[]) =>
      ((count * answerTokens * 1000) / median(list)).toFixed(1);
    const ratio = median(times.off.map((off, index) => off / times.auto[index]!));
    const { drafted: draftedTokens = 0, accepted = 0 } = pair.auto.stats().speculation.draft ?? {};
    console.log(
      `${name}, ${count} at once: ${tokensPerSecond(times.off)} tokens/s without, ${tokensPerSecond(times.auto)} with, ` +
        `ratio ${ratio.toFixed(2)} (so far ${accepted} of ${draftedTokens} drafted tokens were accepted)`,
    );
  }
  await Promise.all(Object.values(pair).map(async (engine) => await engine.close()));
}

const pathOf = async (name: string) => (await findModel(name)).path;
const [agreeingDraft, unrelatedDraft] = [
  await pathOf('agreeing-draft-q8_0'),
  await pathOf('foreign-draft-q8_0'),
];
await compare('a draft model that agrees', await pathOf('agreeing-135m-q8_0'), agreeingDraft);
await compare('a draft model that never agrees', await pathOf('smollm2-135m-q8_0'), unrelatedDraft);
