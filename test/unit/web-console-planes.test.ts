import { describe, expect, it } from 'vitest';
import { rateOf, withCount } from '../../web/console/views/home/token-rate.ts';
import { changeOf, draftOf, tightens } from '../../web/console/views/recorder/policy-draft.ts';
import { tombstonesOf } from '../../web/console/views/recorder/tombstones.ts';
import type { Policy } from '../../web/console/views/recorder/types.ts';
import { matches, type Session } from '../../web/console/views/sessions/sessions.ts';

describe('tokens per second of the host', () => {
  it('covers the last ten seconds, and starts again when the host restarts', () => {
    const counts = [0, 5000, 12_000].reduce(
      (before, at) => withCount(before, { at, tokens: at / 100 }),
      [] as ReturnType<typeof withCount>,
    );
    expect(counts.map(({ at }) => at)).toEqual([5000, 12_000]);
    expect(rateOf(counts)).toBe(10);
    expect(rateOf(withCount(counts, { at: 14_000, tokens: 0 }))).toBeUndefined();
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
    expect(changeOf(draft, policy)).toBeUndefined();
    expect(changeOf({ ...draft, size: '32', redact: 'ACME-[0-9]{6}\n\n@emails\n' }, policy)).toEqual({
      retention: { bytes: 33_554_432 },
      redact: ['ACME-[0-9]{6}', '@emails'],
    });
    expect(changeOf({ ...draft, redact: '' }, policy)).toEqual({ redact: [] });
  });

  it('leaves a size that is not a whole number of MiB unchanged', () => {
    const odd = { ...policy, retention: { ...policy.retention, bytes: 1_234_567 } };
    expect(changeOf({ ...draftOf(odd), days: '1' }, odd)).toEqual({ retention: { days: 1 } });
    expect(tightens(draftOf(odd), odd)).toBe(false);
    expect(tightens({ ...draftOf(odd), events: '5' }, odd)).toBe(true);
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
    expect(matches(session, { kind: '', state: '', text: ' nightLY' })).toBe(true);
    expect(matches(session, { kind: 'run', state: 'running', text: 'ci' })).toBe(true);
    expect(matches(session, { kind: 'task', state: '', text: '' })).toBe(false);
    expect(matches(session, { kind: '', state: 'failed', text: '' })).toBe(false);
  });
});
