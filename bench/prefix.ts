import type { Engine } from '../src/engine/index.ts';
import { freshPrompt, timeAnswer } from './generation.ts';
import { median, roundFigure } from './statistics.ts';

/** Cost of a prompt with a cached prefix. */
export interface PrefixFigures {
  readonly prefixTokens: number;
  /** New tokens after the prefix. */
  readonly questionTokens: number;
  /** Time to the first token without a cached prefix. */
  readonly coldMs: number;
  /** Time to the first token with a cached prefix and a new question. */
  readonly repeatedMs: number;
  /** Cached prompt tokens of the second request, as the engine reports them. */
  readonly cachedTokens: number;
}

const questionTokens = 16;
const answerTokens = 2;

/** Each round sends a request with a new prefix, then one with the same prefix. */
export async function measurePrefix(
  engine: Engine,
  { prefixTokens, rounds }: { prefixTokens: number; rounds: number },
): Promise<PrefixFigures> {
  const cold: number[] = [];
  const repeated: number[] = [];
  const cached: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const prefix = freshPrompt(prefixTokens);
    const timeRequest = () => timeAnswer(engine, [...prefix, ...freshPrompt(questionTokens)], answerTokens);
    cold.push((await timeRequest()).firstTokenMs);
    const second = await timeRequest();
    repeated.push(second.firstTokenMs);
    cached.push(second.cachedTokens);
  }
  return {
    prefixTokens,
    questionTokens,
    coldMs: roundFigure(median(cold)),
    repeatedMs: roundFigure(median(repeated)),
    cachedTokens: median(cached),
  };
}
