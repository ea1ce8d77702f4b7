import type { Engine } from '../src/engine/index.ts';
import { freshPrompt, timeAnswer } from './generation.ts';
import { median, rounded } from './statistics.ts';

/** What a prompt costs whose beginning was asked before. */
export interface PrefixFigures {
  readonly prefixTokens: number;
  /** New ones behind it. */
  readonly questionTokens: number;
  /** Time to the first token when nothing of the prompt was seen before. */
  readonly coldMs: number;
  /** The same with the prefix of an earlier prompt and a new question. */
  readonly repeatedMs: number;
  /** Prompt tokens that the engine took from its cache the second time, as it reports them. */
  readonly cachedTokens: number;
}

const questionTokens = 16;
const answerTokens = 2;

/** Each round asks behind a new prefix, and once more behind the same. */
export async function measurePrefix(
  engine: Engine,
  { prefixTokens, rounds }: { prefixTokens: number; rounds: number },
): Promise<PrefixFigures> {
  const cold: number[] = [];
  const repeated: number[] = [];
  const cached: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const prefix = freshPrompt(prefixTokens);
    const ask = () => timeAnswer(engine, [...prefix, ...freshPrompt(questionTokens)], answerTokens);
    cold.push((await ask()).firstTokenMs);
    const again = await ask();
    repeated.push(again.firstTokenMs);
    cached.push(again.cachedTokens);
  }
  return {
    prefixTokens,
    questionTokens,
    coldMs: rounded(median(cold)),
    repeatedMs: rounded(median(repeated)),
    cachedTokens: median(cached),
  };
}
