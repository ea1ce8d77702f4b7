/** How the console handles responses that the host did not write. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { unwrap as Held } from '../../web/api/client.ts';
import { Fault } from '../../web/api/fault.ts';
import { readEvents, readJsonLines } from '../../web/api/lines.ts';

const all = async (values: AsyncIterable<unknown>): Promise<unknown[]> => {
  const found: unknown[] = [];
  for await (const value of values) found.push(value);
  return found;
};

describe('lines of a response', () => {
  it('are yielded one by one, however the body is split', async () => {
    const text = '{"a":1}\n\n{"b":"ä"}\n';
    const bytes = [...new TextEncoder().encode(text)].map((byte) => Uint8Array.of(byte));
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(byte);
        controller.close();
      },
    });
    expect(await all(readJsonLines(new Response(body)))).toEqual([{ a: 1 }, { b: 'ä' }]);
  });

  it.each(['{"a":1}\n{"b":', '{"a":1}\nnull\n', '{"a":1}\n<html>\n'])(
    'are rejected when truncated or not an object: %s',
    async (text) => {
      const found: unknown[] = [];
      const reading = (async () => {
        for await (const line of readJsonLines(new Response(text))) found.push(line);
      })();
      await expect(reading).rejects.toThrow(/not a valid answer of this host/);
      await expect(reading).rejects.toBeInstanceOf(Fault);
      expect(found).toEqual([{ a: 1 }]);
      const streamed = new Response(`data: ${text.replaceAll('\n', '\ndata: ')}`);
      await expect(all(readEvents(streamed))).rejects.toThrow(/not a valid answer of this host/);
    },
  );
});

describe('a response that is not from the host', () => {
  let unwrap: typeof Held;
  beforeAll(async () => {
    Object.assign(globalThis, { location: { origin: 'http://host' } });
    ({ unwrap } = await import('../../web/api/client.ts'));
  });
  afterAll(() => void Reflect.deleteProperty(globalThis, 'location'));

  it('is reported', async () => {
    const response = new Response('');
    await expect(unwrap(Promise.resolve({ data: null, response }))).rejects.toThrow(/not a valid answer/);
    await expect(unwrap(Promise.reject(new SyntaxError('<html')))).rejects.toThrow(
      /not a valid answer.*<html/,
    );
    expect(await unwrap(Promise.resolve({ data: { a: 1 }, response }))).toEqual({ a: 1 });
  });
});
