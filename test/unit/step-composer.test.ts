/** Steps formed one by one, where a scheduler would hide their contents. */
import { expect, it } from 'vitest';
import { DraftPolicy } from '../../src/engine/speculation/draft-policy.ts';
import { SlotAllocator } from '../../src/engine/memory/slot-allocator.ts';
import { PrefillChunker } from '../../src/engine/scheduling/prefill-chunker.ts';
import { StepComposer } from '../../src/engine/scheduling/step-composer.ts';
import type { GenerateRequest } from '../../src/engine/types.ts';
import { long, run } from '../support/scheduler-world.ts';
import { newSequence, SimulatedRunner } from '../support/simulated-runner.ts';

class SteadyPace extends PrefillChunker {
  override chunkTokens(): number {
    return 201;
  }
}

it('prompts that hold all pages do not wait for each other when a retained state that one of them relied on was evicted', () => {
  const runner = new SimulatedRunner({
    context: 4096,
    slots: 4,
    stepTokens: 512,
    pages: 18,
    retainedStates: 2,
  });
  let preemptions = 0;
  const places = new SlotAllocator(runner, () => (preemptions += 1));
  const parts = { allocator: places, drafting: new DraftPolicy('off'), prefillChunker: new SteadyPace() };
  const composer = new StepComposer(runner, parts);
  const step = runner.newStep();
  const promptTokens = () => {
    places.admit(0);
    const formed = composer.compose(step);
    if (formed) places.submittedSteps += 1;
    return formed?.prefillTokens;
  };
  let order = 0;
  const add = (request: GenerateRequest) => {
    const sequence = newSequence(request, runner);
    sequence.arrive(order++);
    places.enqueue(sequence);
    return sequence;
  };
  const end = (sequence: ReturnType<typeof add>) => {
    sequence.acceptToken(98, 0);
    places.release(sequence);
  };

  // Leaves retained states after 192 tokens, and after all of it.
  const stem = run(3, 192);
  const first = add(long(1, 1, [...stem, 97]));
  expect([promptTokens(), promptTokens()]).toEqual([192, 1]);
  end(first);
  const short = add(long(2, 1, run(5, 9)));
  const older = add(long(3, 3, [...stem, ...run(7, 250)]));
  expect(promptTokens()).toBe(201);
  expect(older).toMatchObject({ scheduledTokens: 384, cachedTokens: 192 });
  // Its state replaces the older one of the two.
  end(short);
  // There is room for its tokens beyond the 192; but the state of the other one, retained in the same step, replaces
  // theirs.
  const younger = add(long(4, 3, [...stem, ...run(11, 120)]));
  expect(promptTokens()).toBe(192);
  expect(older.pages.length + younger.pages.length).toBe(18);
  expect(younger.cachedTokens).toBe(0);
  expect([older.scheduledTokens, younger.scheduledTokens]).toEqual([416, 160]);

  expect(promptTokens()).toBe(26);
  expect([older.phase, younger.phase, preemptions]).toEqual(['decode', 'waiting', 1]);
  expect([promptTokens(), promptTokens(), promptTokens()]).toEqual([0, 0, undefined]);
  for (const id of [97, 98]) older.acceptToken(id, 0);
  end(older);
  expect(promptTokens()).toBeGreaterThan(0);
  expect(younger.phase).toBe('prefill');
});
