/** Images that fs_read shows, and the images of a conversation. */
import fc from 'fast-check';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ChatModelMessage, describeUnseenImage } from '../../src/agent/chat-model.ts';
import { readImageHeader } from '../../src/agent/tools/image-header.ts';
import type { ToolImage } from '../../src/agent/tool.ts';
import { MessageHistory } from '../../src/agent/turns/message-history.ts';
import { agentSpec } from '../../src/agent/shapes/agent-spec.ts';
import { toolWorlds } from '../support/agent-tools.ts';
import { gif, jpegOf, pngOf, webps } from '../support/images.ts';

const newWorld = toolWorlds();

describe('fs_read of an image', () => {
  it.each([
    ['image/png', pngOf(640, 480), 640, 480],
    ['image/gif', gif, 3, 2],
    ['image/jpeg', jpegOf(300, 200), 300, 200],
    ['image/jpeg', jpegOf(300, 200, 60_000), 300, 200],
    ...webps.map((bytes) => ['image/webp', bytes, 3, 2] as const),
  ] as const)('shows %s by its content, not by its name', async (mediaType, bytes, width, height) => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'notes.txt'), bytes);
    const { ok, output, image } = await world.run('fs_read', { path: 'notes.txt', start_line: 5 });
    expect([ok, output]).toEqual([
      true,
      `[notes.txt: an image (${mediaType}) of ${width} x ${height} pixels, ${bytes.length} bytes]`,
    ]);
    expect(image).toMatchObject({
      path: join(world.granted, 'notes.txt'),
      mediaType,
      width,
      height,
      sizeBytes: bytes.length,
      data: bytes.toString('base64'),
    });
  });

  it('reads what only has the name of one as before', async () => {
    const world = await newWorld();
    await writeFile(join(world.granted, 'a.png'), 'text');
    expect(await world.run('fs_read', { path: 'a.png' })).toEqual({
      ok: true,
      output: 'text',
      truncated: false,
    });
    await writeFile(join(world.granted, 'b.png'), Buffer.from([1, 0, 2]));
    expect(await world.run('fs_read', { path: 'b.png' })).toMatchObject({
      ok: false,
      output: expect.stringContaining('is binary'),
    });
    await writeFile(join(world.granted, 'c.svg'), '<svg/>');
    expect((await world.run('fs_read', { path: 'c.svg' })).output).toBe('<svg/>');
  });

  it('says of one that is too large, or broken, what it is', async () => {
    const world = await newWorld();
    const read = async (bytes: Buffer) => {
      await writeFile(join(world.granted, 'a'), bytes);
      return await world.run('fs_read', { path: 'a' });
    };
    for (const [bytes, output] of [
      [
        pngOf(10, 20, 4 * 1024 * 1024),
        /an image \(image\/png\) of 10 x 20 pixels, \d+ bytes; images of more than 3670016 bytes/,
      ],
      [pngOf(9000, 20), /of 9000 x 20 pixels, \d+ bytes; images of more than 8000 pixels a side/],
      [pngOf(10, 20).subarray(0, 20), /begins as image\/png, but is broken/],
      [pngOf(0, 20), /broken/],
      [jpegOf(1, 1).subarray(0, 40), /begins as image\/jpeg, but is broken/],
      [Buffer.from('GIF89a'), /broken/],
    ] as const) {
      const { ok, output: text, image } = await read(bytes);
      expect([ok, text, image]).toEqual([false, expect.stringMatching(output), undefined]);
    }
  });

  it('takes any bytes without failing', () => {
    const heads = [pngOf(1, 1), gif, jpegOf(1, 1), ...webps];
    fc.assert(
      fc.property(
        fc.constantFrom(...heads),
        fc.nat(60),
        fc.uint8Array({ maxLength: 200 }),
        (head, cut, rest) => {
          const header = readImageHeader(Buffer.concat([head.subarray(0, cut), rest]));
          const { width = 1, height = 1 } = header?.size ?? {};
          expect(width > 0 && height > 0).toBe(true);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe('images of a conversation', () => {
  const agent = agentSpec.parse({ name: 'a', instructions: '', model: 'm' });
  const image = (n: number, sizeBytes = 100): ToolImage => ({
    path: `/i${n}`,
    mediaType: 'image/png',
    width: 3,
    height: 2,
    sizeBytes,
    digest: `sha256:${n}`,
    data: `data ${n}`,
  });
  const call = (n: number) => ({ id: `c${n}`, name: 'fs_read', arguments: '{}' });
  const shown = (history: { readonly messages: readonly ChatModelMessage[] }) =>
    history.messages.flatMap((message) =>
      message.role === 'tool' ? [message.image?.data ?? message.content] : [],
    );

  it('are stored without their bytes, and read again after an interruption', async () => {
    const stored: ChatModelMessage[] = [];
    const conversation = {
      id: 't1',
      messages: [],
      lastTurn: 0,
      record: (messages: readonly ChatModelMessage[]) => Promise.resolve(void stored.push(...messages)),
    };
    const first = new MessageHistory({ agent, prompt: '', conversation });
    for (const n of [1, 2]) await first.addToolResult(call(n), { output: `[${n}]`, image: image(n) });
    expect(JSON.stringify(stored)).not.toContain('data ');
    expect(stored).toMatchObject([
      { image: { path: '/i1', digest: 'sha256:1' } },
      { image: { path: '/i2' } },
    ]);
    const again = new MessageHistory({
      agent,
      prompt: '',
      conversation: { ...conversation, messages: stored },
    });
    await again.restoreImages(({ path }) => Promise.resolve(path === '/i1' ? 'data 1' : undefined));
    expect(shown(again)).toEqual(['data 1', '[2]\n(it is not there any more as it was)']);
  });

  it('are at most ten and twelve megabytes, of which the oldest give way', async () => {
    const history = new MessageHistory({ agent, prompt: '' });
    for (let n = 1; n <= 12; n++) await history.addToolResult(call(n), { output: `[${n}]`, image: image(n) });
    expect(shown(history).map((text) => text.startsWith('data'))).toEqual([
      false,
      false,
      ...Array.from({ length: 10 }, () => true),
    ]);
    expect(shown(history)[0]).toBe('[1]\n(left out to make room; read it again if you need it)');
    await history.addToolResult(call(13), { output: '[13]', image: image(13, 12 * 1024 * 1024) });
    expect(shown(history).filter((text) => text.startsWith('data'))).toEqual(['data 13']);
  });

  it('give way before texts where the context is full', async () => {
    const history = new MessageHistory({ agent, prompt: '' });
    await history.addToolResult(call(1), { output: 'x'.repeat(1000) });
    await history.addToolResult(call(2), { output: '[2]', image: image(2) });
    expect(history.shorten()).toBe(true);
    expect(shown(history)).toEqual(['x'.repeat(1000), '[2]\n(left out to make room)']);
    expect(history.shorten()).toBe(true);
    expect(shown(history)[0]).not.toHaveLength(1000);
  });

  it('are described to a model that takes none', () => {
    expect(describeUnseenImage(image(1))).toBe(
      'An image of 3 x 2 pixels, 100 bytes; this model takes no images.',
    );
  });
});
