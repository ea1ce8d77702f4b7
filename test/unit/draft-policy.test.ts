import { describe, expect, it } from 'vitest';
import { type DraftCandidate, DraftPolicy } from '../../src/engine/speculation/draft-policy.ts';

const candidate = (acceptance: number, changes: Partial<DraftCandidate> = {}): DraftCandidate => ({
  draftLimit: 7,
  pendingTokens: 0,
  acceptance,
  ...changes,
});

/** A policy that has learned step times: `ms` by rows, plus `extra` for a verification. */
function informed(ms: (rows: number) => number, extra = 0): DraftPolicy {
  const policy = new DraftPolicy('auto');
  for (let rows = 1; rows <= 24; rows++) {
    policy.recordStepTime('plain', rows, ms(rows));
    policy.recordStepTime('verify', rows, ms(rows) + extra);
  }
  return policy;
}

const flat = () => 10;
const linear = (rows: number) => 10 * rows;

describe('DraftPolicy', () => {
  it('drafts most when rows are free, and none when they cost as much as steps', () => {
    expect(informed(flat).chooseDrafts([candidate(0.9)], 16, 0)).toBe(7);
    expect(informed(linear).chooseDrafts([candidate(0.9)], 16, 0)).toBe(0);
  });

  it('drafts few when only few are cheap', () => {
    expect(informed((rows) => (rows <= 4 ? 10 : 40)).chooseDrafts([candidate(0.9)], 16, 0)).toBe(3);
  });

  it('does not draft when drafts are rejected, or when the readback costs what they save', () => {
    expect(informed(flat).chooseDrafts([candidate(0.01)], 16, 0)).toBe(0);
    expect(informed(flat, 5).chooseDrafts([candidate(0.3)], 16, 0)).toBe(0);
    expect(informed(flat, 5).chooseDrafts([candidate(0.9)], 16, 0)).toBe(7);
  });

  it('a token in flight is one more token to predict', () => {
    const policy = informed(flat, 9);
    expect(policy.chooseDrafts([candidate(0.6)], 16, 0)).toBe(7);
    expect(policy.chooseDrafts([candidate(0.6, { pendingTokens: 1 })], 16, 0)).toBe(0);
  });

  it('with prompt tokens in the step, whose time passes anyway, rows may cost more', () => {
    expect(informed(linear).chooseDrafts([candidate(0.9)], 16, 300)).toBeGreaterThan(0);
  });

  it('counts sequences without a draft as well', () => {
    const slow = informed((rows) => 30 + rows);
    const others = Array.from({ length: 7 }, () => candidate(0, { draftLimit: 0 }));
    expect(slow.chooseDrafts([candidate(0.8), ...others], 16, 0)).toBeGreaterThan(0);
    expect(informed(linear).chooseDrafts([candidate(0.8), ...others], 16, 0)).toBe(0);
    expect(informed(flat).chooseDrafts(others, 16, 0)).toBe(0);
  });

  it('tries an unmeasured size once it knows what to compare it with', () => {
    const policy = new DraftPolicy('auto');
    expect(policy.chooseDrafts([candidate(0.8)], 16, 0)).toBe(0);
    policy.recordStepTime('plain', 1, 10);
    expect(policy.chooseDrafts([candidate(0.8)], 16, 0)).toBe(7);
    policy.recordStepTime('verify', 8, 80);
    expect(policy.chooseDrafts([candidate(0.8)], 16, 0)).toBe(3);
    policy.recordStepTime('verify', 4, 40);
    expect(policy.chooseDrafts([candidate(0.8)], 16, 0)).toBe(1);
    policy.recordStepTime('verify', 2, 20);
    expect(policy.chooseDrafts([candidate(0.8)], 16, 0)).toBe(0);
  });

  it('retries at growing intervals, and resumes when drafting pays off', () => {
    const policy = informed(linear);
    const tries: number[] = [];
    for (let n = 0; n < 4000; n++) if (policy.chooseDrafts([candidate(0.9)], 16, 0) > 0) tries.push(n);
    expect(tries.length).toBeGreaterThan(2);
    expect(tries.length).toBeLessThan(10);
    expect(tries[2]! - tries[1]!).toBeGreaterThan(tries[1]! - tries[0]!);
    for (let n = 0; n < 30; n++)
      for (let rows = 1; rows <= 8; rows++) policy.recordStepTime('verify', rows, 10);
    expect(policy.chooseDrafts([candidate(0.9)], 16, 0)).toBeGreaterThan(0);
    // Drafts that are never accepted are not retried.
    const hopeless = informed(linear);
    for (let n = 0; n < 4000; n++) expect(hopeless.chooseDrafts([candidate(0.05)], 16, 0)).toBe(0);
  });

  it('does not exceed the available rows', () => {
    expect(informed(flat).chooseDrafts([candidate(0.9)], 0, 0)).toBe(0);
    const dear = informed((rows) => (rows > 3 ? 1000 : 10));
    const all = [candidate(0.9), candidate(0.9)];
    expect(dear.chooseDrafts(all, 1, 0)).toBeGreaterThan(0);
    expect(dear.chooseDrafts(all, 16, 0)).toBe(0);
  });

  it('always drafts, or never, in the modes always and off', () => {
    expect(new DraftPolicy('always').chooseDrafts([candidate(0)], 16, 0)).toBe(7);
    expect(new DraftPolicy('always').chooseDrafts([candidate(1, { draftLimit: 0 })], 16, 0)).toBe(0);
    const off = new DraftPolicy('off');
    off.recordStepTime('plain', 1, 10);
    expect(off.chooseDrafts([candidate(1)], 16, 0)).toBe(0);
  });

  it('learns the acceptance rate', () => {
    const policy = new DraftPolicy('auto');
    for (let n = 0; n < 300; n++) policy.observe(false);
    expect(policy.acceptance).toBeLessThan(0.01);
    for (let n = 0; n < 300; n++) policy.observe(true);
    expect(policy.acceptance).toBeGreaterThan(0.99);
  });
});
