/** Logits at any positions of a text; a step only gives those it samples at. */
import { pageTokens } from '../../kernels/rope-kv-write.ts';
import type { Runner } from '../../src/engine/execution/runner.ts';
import { maxStepSamples } from '../../src/engine/execution/step.ts';
import { greedySampling } from '../../src/engine/types.ts';

/** Gives a slot the pages of a whole context, different from those of other slots. */
export function takePages(runner: Runner, slot: number): void {
  const { context } = runner.memory.capacity;
  const count = Math.ceil(context / pageTokens);
  // In random order, so that the page table must be used.
  const first = slot * count;
  runner.setPages(
    slot,
    Array.from({ length: count }, (_, page) => first + count - 1 - page),
  );
}

/**
 * Writes a text into a slot's cache, in chunks of the given sizes (the last one repeats).
 * @returns logits at the requested positions, in order; a chunk runs again when it has more of them than fit a step
 */
export async function logitsAt(
  runner: Runner,
  ids: readonly number[],
  positions: readonly number[],
  { chunks = [ids.length], slot = 0 }: { chunks?: readonly number[]; slot?: number } = {},
): Promise<Float32Array[]> {
  const { slots, stepTokens } = runner.memory.capacity;
  const found = new Map<number, Float32Array>();
  const step = runner.newStep();
  const runs: { first: number; count: number }[] = [];
  /** A chunk that runs again continues from what was before it, which a state no longer holds. */
  const rewind = async () => {
    if (runner.memory.caches.every(({ kind }) => kind === 'pages')) return;
    for (const { first, count } of runs) {
      step.clear();
      step.prefillTokens(ids, first, count, slot);
      await runner.submit(step);
    }
  };
  for (let first = 0, n = 0; first < ids.length; n++) {
    const wanted = chunks[Math.min(n, chunks.length - 1)] ?? 1;
    const count = Math.min(wanted, stepTokens, ids.length - first);
    const here = positions.filter((position) => position >= first && position < first + count);
    let done = 0;
    do {
      const some = here.slice(done, done + maxStepSamples(slots));
      if (done > 0) await rewind();
      step.clear();
      const last = step.prefillTokens(ids, first, count, slot);
      for (const position of some)
        step.sample(last - (first + count - 1 - position), slot, position + 1, greedySampling);
      if (some.length === 0) await runner.submit(step);
      else
        for (const [index, row] of (await runner.logits(step)).entries())
          found.set(some[index] as number, row);
      done += some.length;
    } while (done < here.length);
    runs.push({ first, count });
    first += count;
  }
  return positions.map((position) => found.get(position) as Float32Array);
}
