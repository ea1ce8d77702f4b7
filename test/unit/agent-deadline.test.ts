import { afterEach, expect, it } from 'vitest';
import { AgentAbortError } from '../../src/agent/turns/agent-abort-error.ts';
import { Deadline } from '../../src/agent/turns/limits.ts';
import { ManualClock } from '../support/manual-clock.ts';

const day = 24 * 3_600_000;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
/** Long enough for the timer of a deadline of a few milliseconds to fire. */
const aWhile = () => pause(150);

const open: Deadline[] = [];
afterEach(() => {
  for (const deadline of open.splice(0)) deadline.stop();
});
function begin() {
  const clock = new ManualClock();
  const deadline = new Deadline(0.05, clock);
  open.push(deadline);
  return { clock, deadline };
}

it.each([
  ['ahead', day],
  ['back', -day],
])('the deadline counts elapsed time, although the wall clock is set %s', async (_, ms) => {
  const { clock, deadline } = begin();
  clock.jump(ms);
  await aWhile();
  expect(deadline.signal.aborted).toBe(false);
  clock.pass(49);
  clock.jump(-2 * ms);
  await aWhile();
  expect(deadline.signal.aborted).toBe(false);
  clock.pass(2);
  await expect.poll(() => deadline.signal.aborted).toBe(true);
  expect(deadline.signal.reason).toBeInstanceOf(AgentAbortError);
});

it("the time of a person's decision does not count, whatever the wall clock does", async () => {
  const { clock, deadline } = begin();
  await deadline.pauseWhile(async () => {
    clock.pass(10 * day);
    clock.jump(-20 * day);
    await aWhile();
  });
  await aWhile();
  expect(deadline.signal.aborted).toBe(false);
  clock.pass(51);
  await expect.poll(() => deadline.signal.aborted).toBe(true);
});
