import { describe, expect, it } from 'vitest';
import { tokenRate, appendCount } from '../../web/console/views/home/token-rate.ts';
import { changedMembers, draftOf, lowersLimits } from '../../web/console/views/recorder/policy-draft.ts';
import { tombstonesOf } from '../../web/console/views/recorder/tombstones.ts';
import type { Policy } from '../../web/console/views/recorder/types.ts';
import { matchesFilter, type Session } from '../../web/console/views/sessions/sessions.ts';

describe('tokens per second of the host', () => {
  it('covers the last ten seconds, and starts again when the host restarts', () => {
    const counts = [0, 5000, 12_000].reduce(
      (before, at) => appendCount(before, { timeMs: at, tokens: at / 100 }),
      [] as ReturnType<typeof appendCount>,
    );
    expect(counts.map(({ timeMs: at }) => at)).toEqual([5000, 12_000]);
    expect(tokenRate(counts)).toBe(10);
    expect(tokenRate(appendCount(counts, { timeMs: 14_000, tokens: 0 }))).toBeUndefined();
  });
});

describe('an edited policy', () => {
  const policy: Policy = {
    content: 'metadata',
    retention: { days: 7, bytes: 67_108_864, events: 100_000 },
    redact: ['@credentials'],
  };

  it('sends only changed members', () => {
    const draft = draftOf(policy);
    expect(changedMembers(draft, policy)).toBeUndefined();
    expect(changedMembers({ ...draft, size: '32', redact: 'ACME-[0-9]{6}\n\n@emails\n' }, policy)).toEqual({
      retention: { bytes: 33_554_432 },
      redact: ['ACME-[0-9]{6}', '@emails'],
    });
    expect(changedMembers({ ...draft, redact: '' }, policy)).toEqual({ redact: [] });
  });

  it('leaves a size that is not a whole number of MiB unchanged', () => {
    const odd = { ...policy, retention: { ...policy.retention, bytes: 1_234_567 } };
    expect(changedMembers({ ...draftOf(odd), days: '1' }, odd)).toEqual({ retention: { days: 1 } });
    expect(lowersLimits(draftOf(odd), odd)).toBe(false);
    expect(lowersLimits({ ...draftOf(odd), events: '5' }, odd)).toBe(true);
  });
});

describe('deletion records in the review', () => {
  it('are the records of purges', () => {
    const details = { id: 'd1', at: '2026-01-01T00:00:00.000Z', events: 3, bytes: 814, from: null, to: null };
    const entry = { seq: 1, at: '2026-01-01T00:00:01.000Z', by: 'bearer', rack: 'agent' } as const;
    expect(
      tombstonesOf([
        { ...entry, act: 'purge', details },
        { ...entry, act: 'arm', details: {} },
      ]),
    ).toEqual([{ ...details, rack: 'agent', by: 'bearer', verified: true }]);
  });
});

describe('the filter of the session list', () => {
  const session = { id: 'r12', kind: 'run', title: 'Nightly', state: 'running', harness: 'ci' } as Session;
  it('matches kind, state and words, ignoring case', () => {
    expect(matchesFilter(session, { kind: '', state: '', text: ' nightLY' })).toBe(true);
    expect(matchesFilter(session, { kind: 'run', state: 'running', text: 'ci' })).toBe(true);
    expect(matchesFilter(session, { kind: 'task', state: '', text: '' })).toBe(false);
    expect(matchesFilter(session, { kind: '', state: 'failed', text: '' })).toBe(false);
  });
});
