import { describe, expect, it } from 'vitest';
import { DraftPolicy } from '../../src/engine/speculation/draft-policy.ts';
import { DraftRoundPolicy } from '../../src/engine/speculation/draft-round-policy.ts';

const plainMs = 10;

/** A policy that has learned step times: rows are free, and a step of the draft model takes `stepMs`. */
function informed(stepMs: number, mode: 'auto' | 'always' | 'off' = 'auto'): DraftRoundPolicy {
  const drafting = new DraftPolicy(mode);
  for (let rows = 1; rows <= 24; rows++) {
    drafting.recordStepTime('plain', rows, plainMs);
    drafting.recordStepTime('verify', rows, plainMs);
  }
  const policy = new DraftRoundPolicy(drafting);
  policy.recordDraftSteps(1, 1, stepMs);
  return policy;
}

/** One sequence that the model would draft for, and no other. */
const round = (
  acceptance: number,
  changes: Partial<Parameters<DraftRoundPolicy['chooseDrafts']>[0]> = {},
) => ({
  withDrafts: [{ draftLimit: 7, pendingTokens: 0, acceptance }],
  withoutDrafts: [{ draftLimit: 0, pendingTokens: 0, acceptance: 0 }],
  count: 1,
  rows: 16,
  promptMs: 0,
  catchUpMs: 0,
  horizonTokens: 128,
  ...changes,
});

describe('RoundPolicy', () => {
  it('drafts most when it costs little, fewer when each draft has a price, none when there is no gain', () => {
    expect(informed(0.1).chooseDrafts(round(0.95))).toBe(7);
    expect(informed(3).chooseDrafts(round(0.8))).toBe(3);
    expect(informed(4).chooseDrafts(round(0.7))).toBe(1);
    expect(informed(9).chooseDrafts(round(0.9))).toBe(0);
    expect(informed(0.1).chooseDrafts(round(0.1))).toBe(0);
  });

  it('prefers free drafts that promise as much', () => {
    const looked = { withoutDrafts: [{ draftLimit: 7, pendingTokens: 0, acceptance: 0.9 }] };
    expect(informed(1).chooseDrafts(round(0.9, looked))).toBe(0);
    expect(
      informed(0.1).chooseDrafts(
        round(0.9, { withoutDrafts: [{ draftLimit: 7, pendingTokens: 1, acceptance: 0.4 }] }),
      ),
    ).toBe(7);
  });

  it('the cost of catching up must pay off within the rest of the output', () => {
    expect(informed(1).chooseDrafts(round(0.8, { catchUpMs: 200, horizonTokens: 128 }))).toBeGreaterThan(0);
    expect(informed(1).chooseDrafts(round(0.8, { catchUpMs: 200, horizonTokens: 20 }))).toBe(0);
  });

  it('does nothing before plain step times are known, and always or never drafts in those modes', () => {
    expect(new DraftRoundPolicy(new DraftPolicy('auto')).chooseDrafts(round(0.9))).toBe(0);
    expect(informed(50, 'always').chooseDrafts(round(0.1))).toBe(7);
    expect(informed(0.1, 'off').chooseDrafts(round(1))).toBe(0);
    expect(informed(0.1).chooseDrafts(round(1, { rows: 0 }))).toBe(0);
    expect(informed(0.1).chooseDrafts(round(1, { count: 0 }))).toBe(0);
  });

  it('never loses more than a bounded start and a small fraction of the time', () => {
    const policy = informed(0.1);
    let lost = 0;
    let passed = 0;
    const losses: number[] = [];
    for (let step = 0; step < 20_000; step++) {
      // Every draft is expected to be accepted, and none is.
      if (policy.chooseDrafts(round(1)) > 0) {
        const ms = 25;
        policy.recordRound(ms, 1, plainMs);
        lost += ms - plainMs;
      } else policy.recordPlainStep(plainMs);
      passed += plainMs;
      losses.push(lost - 0.02 * passed);
    }
    expect(lost).toBeGreaterThan(32 * plainMs);
    expect(Math.max(...losses)).toBeLessThan(34 * plainMs);
    // It was tried until the end.
    expect(lost).toBeGreaterThan(0.015 * passed);
  });

  it('keeps gains for the cost of new texts, up to a limit', () => {
    const policy = informed(0.1);
    const dear = round(1, { catchUpMs: 60 * plainMs, horizonTokens: 1e6 });
    expect(policy.chooseDrafts(dear)).toBe(0);
    for (let n = 0; n < 10; n++) policy.recordRound(plainMs, 6, plainMs);
    expect(policy.chooseDrafts(dear)).toBe(7);
    for (let n = 0; n < 1000; n++) policy.recordRound(plainMs, 6, plainMs);
    // Plain steps to measure.
    for (let n = 0; n < 3; n++) policy.chooseDrafts(round(1));
    expect(policy.chooseDrafts(round(1, { catchUpMs: 161 * plainMs, horizonTokens: 1e6 }))).toBe(0);
    expect(policy.chooseDrafts(round(1, { catchUpMs: 159 * plainMs, horizonTokens: 1e6 }))).toBe(7);
  });

  it('keeps measuring some plain steps even when drafting always pays off', () => {
    const policy = informed(1);
    const withoutDrafts: number[] = [];
    for (let step = 0; step < 1000; step++) {
      if (policy.chooseDrafts(round(1)) > 0) policy.recordRound(17, 8, plainMs);
      else withoutDrafts.push(step);
    }
    expect(withoutDrafts.length).toBeGreaterThan(20);
    expect(withoutDrafts.length).toBeLessThan(40);
    // Consecutive ones, because only steps that follow each other can be measured.
    expect(withoutDrafts.slice(0, 3)).toEqual([96, 97, 98]);
  });

  it('retries at growing intervals, and not before the last trial is paid for', () => {
    const policy = informed(1);
    const tries: number[] = [];
    for (let step = 0; step < 6000; step++) {
      if (policy.chooseDrafts(round(0)) > 0) {
        tries.push(step);
        policy.recordRound(13, 1, plainMs);
      } else policy.recordPlainStep(plainMs);
    }
    expect(tries.length).toBeGreaterThan(4);
    expect(tries.length).toBeLessThan(12);
    expect(tries[2]! - tries[1]!).toBeGreaterThan(tries[1]! - tries[0]!);
  });
});
