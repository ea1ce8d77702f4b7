import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OversizedEvent, SseParser } from '../../src/wires/core/sse-parser.ts';
import type { SseFrame } from '../../src/wires/core/wire.ts';

/** @param cuts places, in bytes, where one chunk ends and the next begins */
function parsed(bytes: Buffer, cuts: readonly number[] = []): SseFrame[] {
  const parser = new SseParser(1e6);
  const frames: SseFrame[] = [];
  const ends = [...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
  let from = 0;
  for (const end of ends) {
    frames.push(...parser.push(bytes.subarray(from, end)));
    from = end;
  }
  return [...frames, ...parser.end()];
}
const read = (text: string) => parsed(Buffer.from(text)).map(({ event, data }) => ({ event, data }));

/** @param text whose last event has its empty line */
function reference(text: string) {
  const events: { event: string | undefined; data: string }[] = [];
  const parser = createParser({
    onEvent: ({ event, data }) => events.push({ event, data }),
    onError: () => undefined,
  });
  parser.feed(text);
  return events;
}

const lineEnd = fc.constantFrom('\n', '\r\n', '\r');
const word = fc.string({
  unit: fc.constantFrom('a', ' ', ':', 'ä', '漢', '😀', '{', '"', '\u2028', '\0', '\ufeff'),
  maxLength: 12,
});
const line = fc.oneof(
  { weight: 5, arbitrary: word.map((value) => `data: ${value}`) },
  word.map((value) => `data:${value}`),
  word.map((value) => `event: ${value}`),
  word.map((value) => `event:${value}`),
  word.map((value) => `: ${value}`),
  fc.constantFrom('data', 'event', 'id: 7', 'retry: 10', ':', 'datax: y', ' data: y', 'Data: y'),
  { weight: 4, arbitrary: fc.constant('') },
);
const stream = fc
  .array(fc.tuple(line, lineEnd), { maxLength: 40 })
  .map((lines) => lines.map(([text, end]) => text + end).join(''));
const cuts = fc.array(fc.nat(600), { maxLength: 30 });

describe('SseParser', () => {
  it('agrees with another parser, however the bytes are split', () => {
    fc.assert(
      fc.property(stream, cuts, fc.boolean(), (text, at, marked) => {
        const bytes = Buffer.from((marked ? '\ufeff' : '') + text);
        const frames = parsed(bytes, at);
        expect(frames.map(({ event, data }) => ({ event, data }))).toEqual(reference(`${text}\n\n`));
      }),
      { numRuns: 3000 },
    );
  });

  it('keeps the raw text: concatenated frames are the stream', () => {
    fc.assert(
      fc.property(stream, cuts, (text, at) => {
        const whole = `${text}\n\ndata: last\n\n`.replace(/^\ufeff/, '');
        const frames = parsed(Buffer.from(whole), at);
        expect(frames.map(({ raw }) => raw).join('')).toBe(whole);
        // And each one alone says the same.
        for (const { event, data, raw } of frames)
          expect(read(raw.replace(/^\n/, ''))).toEqual([{ event, data }]);
      }),
      { numRuns: 2000 },
    );
  });

  it('accepts splits anywhere, within characters too', () => {
    const bytes = Buffer.from('\ufeffevent: ä😀\r\ndata: {"漢": "字"}\r\ndata: two\r\n\r\ndata: x\r\r');
    const whole = parsed(bytes);
    expect(whole).toEqual([
      {
        event: 'ä😀',
        data: '{"漢": "字"}\ntwo',
        raw: 'event: ä😀\r\ndata: {"漢": "字"}\r\ndata: two\r\n\r\n',
      },
      { event: undefined, data: 'x', raw: 'data: x\r\r' },
    ]);
    const events = whole.map(({ event, data }) => ({ event, data }));
    for (let cut = 1; cut < bytes.length; cut += 1)
      expect(parsed(bytes, [cut]).map(({ event, data }) => ({ event, data }))).toEqual(events);
    const each = parsed(
      bytes,
      Array.from({ length: bytes.length }, (_, n) => n),
    );
    expect(each.map(({ event, data }) => ({ event, data }))).toEqual(events);
  });

  it('accepts a last event without its empty line, and completes its text', () => {
    for (const [text, data] of [
      ['data: x', 'x'],
      ['data: x\n', 'x'],
      ['data: x\r', 'x'],
      ['data: x\r\n', 'x'],
      ['data: a\n\ndata: x', 'x'],
      ['data', ''],
    ] as const) {
      const frame = parsed(Buffer.from(text)).at(-1);
      expect(frame?.data, JSON.stringify(text)).toBe(data);
      // Another event may follow it.
      expect(read(`${frame?.raw}data: next\n\n`)).toEqual([
        { event: undefined, data },
        { event: undefined, data: 'next' },
      ]);
    }
    expect(read('event: x\n')).toEqual([]);
    expect(read(': comment')).toEqual([]);
    expect(read('')).toEqual([]);
  });

  it('passes comments on with the next frame, up to a limit', () => {
    expect(parsed(Buffer.from(': ping\n\n: ping\n\ndata: x\n\n'))[0]?.raw).toBe(
      ': ping\n\n: ping\n\ndata: x\n\n',
    );
    const parser = new SseParser(10_000);
    for (let n = 0; n < 5000; n += 1) parser.push(Buffer.from(': ping\n\n'));
    const [frame] = parser.push(Buffer.from('data: x\n\n'));
    expect(frame?.data).toBe('x');
    expect(frame?.raw.length).toBeLessThan(5000);
  });

  it('refuses an event that exceeds the limit', () => {
    const parser = new SseParser(1000);
    parser.push(Buffer.from(`data: ${'x'.repeat(900)}\n\n`));
    parser.push(Buffer.from(`data: ${'x'.repeat(900)}`));
    expect(() => parser.push(Buffer.from('x'.repeat(200)))).toThrow(OversizedEvent);
    const lines = new SseParser(1000);
    expect(() => {
      for (let n = 0; n < 200; n += 1) lines.push(Buffer.from('data: y\n'));
    }).toThrow(OversizedEvent);
  });

  it('reads a large event in small chunks in linear time', () => {
    const parser = new SseParser(64e6);
    const chunk = Buffer.from('x'.repeat(1024));
    parser.push(Buffer.from('data: '));
    for (let n = 0; n < 16_384; n += 1) expect(parser.push(chunk)).toEqual([]);
    const [frame] = parser.push(Buffer.from('\n\n'));
    expect(frame?.data.length).toBe(16 * 1024 * 1024);
  });

  it('counts lines, which show that a stream is alive', () => {
    const parser = new SseParser(1000);
    parser.push(Buffer.from('dat'));
    parser.push(Buffer.from('a: x'));
    expect(parser.lineCount).toBe(0);
    parser.push(Buffer.from('\n: ping\n'));
    expect(parser.lineCount).toBe(2);
  });
});
