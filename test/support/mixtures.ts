/**
 * Mixtures of experts on the kernels for GPUs: how far the predictions of a prompt are from those of the same tokens decoded one
 * by one. Rounding can change which experts the router selects, and with them a prediction by nats.
 */
import { klDivergence } from '../../src/engine/execution/divergence.ts';
import { greedySampling, loadEngine } from '../../src/engine/index.ts';
import { platforms } from './architectures.ts';
import { random } from './kernel-harness.ts';
import { logitsAt, takePages } from './logits-at.ts';
import { memoryPlatform, type TinyModel, tinyModel } from './tiny-model.ts';

const common = { layers: 4, width: 128, type: 'Q8_0' } as const;
/** By name: architecture, experts of a token and of the model. */
export const mixtures: Readonly<Record<string, TinyModel>> = {
  'qwen3moe, 2 of 6': { ...common, architecture: 'qwen3moe' },
  'qwen3moe, 5 of 13': {
    ...common,
    architecture: 'qwen3moe',
    experts: { count: 13, used: 5, feedForward: 64 },
  },
  'qwen3moe, 8 of 64': {
    ...common,
    architecture: 'qwen3moe',
    experts: { count: 64, used: 8, feedForward: 64 },
  },
  'gpt-oss, 4 of 32': {
    ...common,
    architecture: 'gpt-oss',
    experts: { count: 32, used: 4, feedForward: 64 },
  },
};

const positions = Array.from({ length: 64 }, (_, position) => position);

/** @returns KL divergence in nats at each position of random texts, one for each seed of the weights, in descending order */
export async function promptDivergences(
  model: TinyModel,
  { exact, seeds }: { readonly exact: boolean; readonly seeds: readonly number[] },
): Promise<number[]> {
  const found: number[] = [];
  for (const seed of seeds) {
    const engine = await loadEngine(
      {
        ...memoryPlatform(tinyModel({ ...model, seed })),
        requestAdapter: (options) => platforms.hardware.requestAdapter(options),
      },
      { model: 'memory.gguf', context: 96, parallel: 2, speculation: 'off', exact },
    );
    const { runner } = engine;
    const next = random(seed);
    const ids = positions.map(() => Math.floor(next() * 256));
    for (const slot of [0, 1]) takePages(runner, slot);
    const prompt = await logitsAt(runner, ids, positions);
    for (const position of positions) {
      const step = runner.newStep();
      const row = step.decodeToken(ids[position] as number, position, 1);
      step.sample(row, 1, position + 1, greedySampling);
      const [decoded] = await runner.logits(step);
      found.push(klDivergence(decoded as Float32Array, prompt[position] as Float32Array));
    }
    await engine.close();
  }
  return found.toSorted((one, other) => other - one);
}
