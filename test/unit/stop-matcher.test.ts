import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StopMatcher } from '../../src/engine/sampling/stop-matcher.ts';

/** Few letters, so that stop strings overlap the text and each other. */
const letters = (maxLength: number, minLength = 0) =>
  fc.string({ unit: fc.constantFrom('a', 'b', 'c', '\u{1f600}'), maxLength, minLength });

/** All output, and the index of the push at which it stopped. */
function run(stops: readonly string[], pieces: readonly string[]) {
  const matcher = new StopMatcher(stops);
  const out: string[] = [];
  for (const piece of pieces) {
    out.push(matcher.push(piece));
    if (matcher.isStopped) break;
  }
  return { stopped: matcher.isStopped, pushed: out.length, text: out.join('') + matcher.flush(), out };
}

/** The definition: the stop string that is complete first ends the text before its own start. */
function defined(stops: readonly string[], text: string): { stopped: boolean; text: string } {
  let best: { start: number; end: number } | undefined;
  for (const stop of stops) {
    const start = text.indexOf(stop);
    const end = start + stop.length;
    if (start < 0) continue;
    if (!best || end < best.end || (end === best.end && start < best.start)) best = { start, end };
  }
  return best ? { stopped: true, text: text.slice(0, best.start) } : { stopped: false, text };
}

describe('StopMatcher', () => {
  it('finds a stop string that spans any number of pushes', () => {
    expect(run(['STOP'], ['one S', 'T', 'O', 'P two'])).toMatchObject({ stopped: true, text: 'one ' });
    expect(run(['STOP'], ['one S', 'T', 'O', 'N'])).toMatchObject({ stopped: false, text: 'one STON' });
  });

  it('holds back no more than could be the start of a stop string', () => {
    expect(run(['\n\nUser:'], ['Hello\n', 'there\n\n', 'Use', ' it']).out).toEqual([
      'Hello',
      '\nthere',
      '',
      '\n\nUse it',
    ]);
  });

  it('a stop string may start inside a partial match of itself', () => {
    expect(run(['aab'], ['a', 'a', 'a', 'b', 'c'])).toMatchObject({ stopped: true, text: 'a' });
  });

  it('returns nothing after the stop, and ignores empty stop strings', () => {
    const matcher = new StopMatcher(['', 'x']);
    expect(matcher.push('abxcd')).toBe('ab');
    expect(matcher.push('more')).toBe('');
    expect(matcher.flush()).toBe('');
  });

  it('without stop strings everything passes at once', () => {
    expect(run([], ['a', 'b']).out).toEqual(['a', 'b']);
  });

  it('cuts at the stop string that is complete first, regardless of push boundaries', () => {
    fc.assert(
      fc.property(
        fc.array(letters(4, 1), { maxLength: 4 }),
        fc.array(letters(5), { maxLength: 12 }),
        (stops, pieces) => {
          const { stopped, text } = run(stops, pieces);
          expect({ stopped, text }).toEqual(defined(stops, pieces.join('')));
          const letterwise = run(stops, Array.from(pieces.join('')));
          expect({ stopped: letterwise.stopped, text: letterwise.text }).toEqual({ stopped, text });
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('stops with the push that completes the stop string, not later', () => {
    fc.assert(
      fc.property(fc.array(letters(3, 1), { minLength: 1, maxLength: 3 }), letters(30), (stops, text) => {
        const units = Array.from(text);
        const { pushed } = run(stops, units);
        const needed = units.findIndex((_, n) => defined(stops, units.slice(0, n + 1).join('')).stopped);
        expect(pushed).toBe(needed < 0 ? units.length : needed + 1);
      }),
    );
  });
});
