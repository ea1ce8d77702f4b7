import { LRUCache } from 'lru-cache';
import type { KernelRegistrationReport } from './types.ts';

/**
 * Seeds with which programs failed parity. Inputs are random, so a kernel that is wrong only sometimes would pass when it is
 * registered often enough: it is checked with the inputs on which it failed.
 */
export class Failures {
  /** By `programDigest`. */
  readonly #seeds = new LRUCache<string, number>({ max: 1000 });

  /** Seed of an earlier failure. */
  seedOf(program: string): number | undefined {
    return this.#seeds.get(program);
  }

  record(program: string, { seed, stages }: KernelRegistrationReport): void {
    const isWrong = stages.some(({ stage, ok }) => stage === 'parity' && !ok);
    if (isWrong && seed !== undefined) this.#seeds.set(program, seed);
  }
}
