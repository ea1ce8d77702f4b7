/** Random tokens, and keys and values of them in the cache. */
import { type Random, randomInteger } from '../../util/random.ts';
import type { BenchPort } from './port.ts';

/** Positions that are filled before decoding at a context; those beyond contain data of earlier samples, the same for both arms. */
const maxFilled = 2048;
/** Tokens of an untimed step: requests wait for so long at most. */
export const maxStep = 64;

export const randomTokens = (count: number, { vocabulary }: BenchPort, random: Random): number[] =>
  Array.from({ length: count }, () => randomInteger(random, vocabulary));

/** Writes random tokens to the first positions of the cache, so that attention over them shows what it reads. */
export async function fillCache(
  port: BenchPort,
  contexts: readonly number[],
  { random, signal }: { random: Random; signal: AbortSignal },
): Promise<void> {
  const count = Math.min(maxFilled, Math.max(0, ...contexts));
  const tokens = randomTokens(count, port, random);
  const size = Math.min(port.stepTokens, maxStep);
  for (let first = 0; first < count; first += size) {
    signal.throwIfAborted();
    await port.pause();
    await port.fill(first, tokens.slice(first, first + size));
  }
}
