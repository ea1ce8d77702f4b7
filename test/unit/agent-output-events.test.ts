import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { OutputEvents } from '../../src/agent/turns/output-events.ts';

const collect = () => {
  const texts: string[] = [];
  const events = new OutputEvents('c1', (event) => {
    expect(event).toMatchObject({ type: 'tool_output', call_id: 'c1' });
    texts.push((event as { text: string }).text);
    return Promise.resolve();
  });
  return { texts, events };
};

describe('the events of what a call prints', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('come at most every 250 ms', () => {
    const { texts, events } = collect();
    for (let ms = 0; ms < 1000; ms += 10) {
      events.add(`${ms} `);
      vi.advanceTimersByTime(10);
    }
    expect(texts.length).toBeGreaterThan(2);
    expect(texts.length).toBeLessThanOrEqual(4);
    expect(texts.join('')).toMatch(/^0 10 20 /);
  });

  it('end with what is left, and nothing comes after the end', async () => {
    const { texts, events } = collect();
    events.add('one');
    await events.end();
    events.add('two');
    vi.advanceTimersByTime(1000);
    await events.end();
    expect(texts).toEqual(['one']);
  });

  it('stop at 64 Ki characters, and say so', async () => {
    const { texts, events } = collect();
    for (let n = 0; n < 100; n++) {
      events.add('x'.repeat(1000));
      vi.advanceTimersByTime(300);
    }
    await events.end();
    const all = texts.join('');
    expect(all.replaceAll(/[^x]/g, '').length).toBe(65_536);
    expect(texts.at(-1)).toMatch(/\n\[the rest is shown when the call has ended\]\n$/);
  });

  it('have no escape sequences, also not those that are cut in two', async () => {
    const { texts, events } = collect();
    for (const piece of ['a\u001b', '[3', '1mred\u001b[0m\u001b]0;ti', 'tle\u0007b\r\n']) {
      events.add(piece);
      vi.advanceTimersByTime(300);
    }
    await events.end();
    expect(texts.join('')).toBe('aredb\n');
    expect(texts.join('')).not.toContain('\u001b');
  });
});
