import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RunIdGenerator } from '../../src/agent/workflows/running/run-ids.ts';
import { RunSlot } from '../../src/agent/workflows/running/run-slot.ts';
import { ManualClock } from '../support/manual-clock.ts';

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("the host's single run slot", () => {
  it('is taken at once when it is free, and by one holder only', () => {
    const slot = new RunSlot();
    expect(slot.tryAcquire('r1')).toBe(true);
    expect(slot.holder).toBe('r1');
    expect(slot.tryAcquire('r2')).toBe(false);
    expect(() => slot.release('r2')).toThrow('r2');
    slot.release('r1');
    expect(slot.holder).toBeUndefined();
  });

  it('goes to who has waited longest of those that still wait; who takes it at once does not come before them', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 8 }), async (leaves) => {
        const slot = new RunSlot();
        const served: string[] = [];
        slot.tryAcquire('first');
        const waits = leaves.map((leaves_, index) => {
          const left = new AbortController();
          const id = `r${index}`;
          const taken = slot.acquire(id, left.signal).then(
            () => void served.push(id),
            () => 'left',
          );
          return { left, leaves: leaves_, taken, id };
        });
        for (const { left, leaves: goes } of waits) if (goes) left.abort(new Error('left'));
        slot.release('first');
        const expected = waits.filter((wait) => !wait.leaves).map(({ id }) => id);
        for (const id of expected) {
          await settled();
          expect(slot.holder).toBe(id);
          expect(slot.tryAcquire('pusher')).toBe(false);
          slot.release(id);
        }
        await Promise.all(waits.map(({ taken }) => taken));
        expect(served).toEqual(expected);
        expect(slot.holder).toBeUndefined();
      }),
    );
  });

  it('is not given to one that left before it came', async () => {
    const slot = new RunSlot();
    await expect(slot.acquire('r1', AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone');
    expect(slot.holder).toBeUndefined();
  });
});

describe('run ids', () => {
  it('grow, whatever the clock does, also over a restart', () => {
    const clock = new ManualClock();
    const ids = new RunIdGenerator(clock);
    const made = [ids.next(), ids.next()];
    clock.jump(-1_000_000);
    made.push(ids.next());
    const again = new RunIdGenerator(clock);
    again.startAfter(made.at(-1));
    made.push(again.next());
    clock.jump(5_000_000);
    made.push(again.next());
    const numbers = made.map((id) => BigInt(id.slice(1)));
    for (const [at, number] of numbers.entries()) expect(number > (numbers[at - 1] ?? 0n)).toBe(true);
    // Nanoseconds of the wall clock.
    expect(made.at(-1)).toMatch(new RegExp(`^r${clock.now().getTime()}\\d{6}$`));
  });
});
