import type { Engine } from '../src/engine/index.ts';
import { freshPrompt, timeAnswer } from './generation.ts';
import { sum } from './cost.ts';
import { median, roundFigure } from './statistics.ts';

/** Total decode rate of parallel answers. */
export interface StreamFigures {
  /** Number of parallel answers. */
  readonly streams: number;
  /** Rate of all answers together, including those that wait for a slot. */
  readonly tokensPerSecond: number;
}

/** Short prompts, so that all answers start within a step or two. */
const promptTokens = 4;

/** Measures the decode rate of 1, 2, 4, ... parallel answers, each to a different short prompt. */
export async function measureStreams(
  engine: Engine,
  options: { counts: readonly number[]; tokens: number; rounds: number },
): Promise<StreamFigures[]> {
  const { counts, tokens, rounds } = options;
  const figures: StreamFigures[] = [];
  for (const streams of counts) {
    const rates: number[] = [];
    // The first round is a warm-up.
    for (let round = 0; round <= rounds; round++) {
      const rate = await measureRound(engine, streams, tokens);
      if (round > 0) rates.push(rate);
    }
    figures.push({ streams, tokensPerSecond: roundFigure(median(rates)) });
  }
  return figures;
}

/** Decode times of one answer. */
interface DecodeTimes {
  /** Times of the first and the last token. */
  readonly from: number;
  readonly to: number;
  readonly tokens: number;
}

async function measureRound(engine: Engine, streams: number, tokens: number): Promise<number> {
  const prompts = Array.from({ length: streams }, () => freshPrompt(promptTokens));
  return totalRate(await Promise.all(prompts.map((prompt) => timeDecode(engine, prompt, tokens))));
}

async function timeDecode(engine: Engine, prompt: readonly number[], tokens: number): Promise<DecodeTimes> {
  const start = performance.now();
  const { firstTokenMs, perTokenMs } = await timeAnswer(engine, prompt, tokens);
  const from = start + firstTokenMs;
  return { from, to: from + perTokenMs * (tokens - 1), tokens };
}

/** Tokens per second of all answers, from the first token of the first answer to the last token of the last one. */
export function totalRate(all: readonly DecodeTimes[]): number {
  const from = Math.min(...all.map((one) => one.from));
  const to = Math.max(...all.map((one) => one.to));
  return (sum(all.map(({ tokens }) => tokens - 1)) * 1000) / (to - from);
}
