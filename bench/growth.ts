import { greedySampling, type ResidentEngine } from '../src/engine/index.ts';
import { pipelineDepth } from '../src/engine/execution/runner.ts';
import { feedbackToken } from '../src/engine/execution/step.ts';
import { sum } from './cost.ts';
import { firstSlot, assignPages, type NodeFigures, traceStep } from './nodes.ts';
import { median, roundFigure } from './statistics.ts';

type Runner = ResidentEngine['runner'];

/** Cost of a decoded token after a context. */
export interface GrowthFigures {
  readonly context: number;
  /** For one sequence and steps only, without text processing and requests. */
  readonly decodeTokensPerSecond: number;
  /** Host time to fill, encode and submit a step; it must stay below the GPU time of a step. */
  readonly encodeMs: number;
  /** Rate of all attention nodes of a step over their GPU time; absent without timestamp queries. */
  readonly attentionGflops?: number;
  readonly attentionMs?: number;
}

/**
 * Measures decode steps at growing positions. The context is not computed first, because timing does not depend on the
 * content of the cache. The engine must be idle.
 */
export async function measureGrowth(
  runner: Runner,
  options: { contexts: readonly number[]; tokens: number; rounds: number },
): Promise<GrowthFigures[]> {
  const { contexts, tokens, rounds } = options;
  assignPages(runner);
  const figures: GrowthFigures[] = [];
  for (const context of contexts.filter((one) => one + tokens <= runner.memory.capacity.context)) {
    await timeSteps(runner, context, tokens);
    const times = [];
    for (let round = 0; round < rounds; round++) times.push(await timeSteps(runner, context, tokens));
    const attention = runner.gpu.timestamps
      ? attentionFigures((await traceStep(runner, { phase: 'decode', context, rounds: 5 })).nodes)
      : {};
    figures.push({
      context,
      decodeTokensPerSecond: roundFigure(1000 / median(times.map(({ tokenMs }) => tokenMs))),
      encodeMs: roundFigure(median(times.map(({ encodeMs }) => encodeMs))),
      ...attention,
    });
  }
  return figures;
}

/**
 * Decodes `tokens` tokens from position `context` as the engine does: tokens are fed back on the GPU with steps in
 * flight, or step by step when the host needs the token ids.
 */
async function timeSteps(
  runner: Runner,
  context: number,
  tokens: number,
): Promise<{ tokenMs: number; encodeMs: number }> {
  const step = runner.newStep();
  const [id, depth] = runner.needsTokenIds ? [1, 1] : [feedbackToken, pipelineDepth];
  const inFlight: Promise<unknown>[] = [];
  const encodeTimes: number[] = [];
  const start = performance.now();
  for (let position = context; position < context + tokens; position++) {
    const stepStart = performance.now();
    step.clear();
    const row = step.decodeToken(id, position, firstSlot);
    step.sample(row, firstSlot, position + 1, greedySampling);
    inFlight.push(runner.submit(step));
    encodeTimes.push(performance.now() - stepStart);
    if (inFlight.length === depth) await inFlight.shift();
  }
  await Promise.all(inFlight);
  return { tokenMs: (performance.now() - start) / tokens, encodeMs: median(encodeTimes) };
}

function attentionFigures(nodes: readonly NodeFigures[]): { attentionGflops: number; attentionMs: number } {
  const attention = nodes.filter(({ op }) => op.startsWith('attention'));
  const ms = sum(attention.map((node) => node.ms));
  const gigaflop = sum(attention.map((node) => node.gflops * node.ms));
  return { attentionGflops: roundFigure(gigaflop / ms), attentionMs: roundFigure(ms) };
}
