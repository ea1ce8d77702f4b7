import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cleanText, cutText, visibleJson } from '../../src/agent/mcp/clean-text.ts';
import { withIntent } from '../../src/agent/mcp/intent.ts';
import { parseListedTool } from '../../src/agent/mcp/listed-tool.ts';
import { toToolOutput } from '../../src/agent/mcp/tool-output.ts';
import { computePin } from '../../src/agent/mcp/pin.ts';
import { mcpToolName } from '../../src/agent/mcp/tool-name.ts';
import { createFloodGuard, limitedFetch } from '../../src/agent/mcp/transport-limits.ts';
import { serve } from '../support/local-server.ts';

const wellFormed = fc.string({ unit: 'grapheme' });
const json = fc.jsonValue({ maxDepth: 3, stringUnit: 'grapheme' });
const pinnedPart = fc.record({
  name: wellFormed,
  description: wellFormed,
  inputSchema: fc.dictionary(wellFormed, json),
  annotations: fc.dictionary(wellFormed, json),
});

describe('the pin', () => {
  test('does not depend on the order of members, and changes with any member', () => {
    fc.assert(
      fc.property(
        pinnedPart,
        pinnedPart,
        fc.constantFrom('name', 'description', 'inputSchema', 'annotations'),
        (tool, other, member) => {
          const pin = computePin(tool);
          expect(pin).toMatch(/^sha256:[0-9a-f]{64}$/);
          const { name, ...rest } = tool;
          const turned = JSON.parse(
            JSON.stringify({ ...Object.fromEntries(Object.entries(rest).reverse()), name }),
          ) as typeof tool;
          expect(computePin(turned)).toBe(pin);
          const changed = { ...tool, [member]: other[member] };
          const same = JSON.stringify(sorted(changed)) === JSON.stringify(sorted(tool));
          expect(computePin(changed) === pin).toBe(same);
          expect(computePin({ ...tool, [member]: undefined })).not.toBe(pin);
        },
      ),
    );
  });

  test('changes with any one value deep in a schema', () => {
    const values = fc.dictionary(wellFormed, json, { minKeys: 1 });
    fc.assert(
      fc.property(values, fc.nat(), (properties, at) => {
        const keys = Object.keys(properties);
        const key = keys[at % keys.length] ?? '';
        const part = (inside: object) => ({ name: 'x', inputSchema: { type: 'object', properties: inside } });
        const { [key]: _, ...without } = properties;
        expect(computePin(part(without))).not.toBe(computePin(part(properties)));
        expect(computePin(part({ ...properties, [key]: [properties[key]] }))).not.toBe(
          computePin(part(properties)),
        );
      }),
    );
  });

  test('does not depend on members that are not reviewed', () => {
    const tool = { name: 'x', inputSchema: { type: 'object' } };
    expect(parseListedTool({ ...tool, title: 'a', _meta: { a: 1 } })).toMatchObject({
      pin: computePin(tool),
    });
    // Made with another program, over {"annotations":{"readOnlyHint":true},"description":"d","inputSchema":{"type":"object"},"name":"n"}.
    const known = {
      name: 'n',
      description: 'd',
      inputSchema: { type: 'object' },
      annotations: { readOnlyHint: true },
    };
    expect(computePin(known)).toBe('sha256:5241277060e4389b431080b7b99f78eaa87f9572445c506c1b2103463832449c');
  });
});

/** With the members of every object in order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => [key, sorted(member)]);
}

test('tool names are valid for models, stable and unique', () => {
  expect(mcpToolName('files', 'read_file')).toBe('mcp_files_read_file');
  expect(mcpToolName('files', 'read.file')).toMatch(/^mcp_files_read_file_[0-9a-f]{8}$/);
  const server = fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,31}$/);
  const tool = fc.string({ minLength: 1, maxLength: 80, unit: 'grapheme' });
  fc.assert(
    fc.property(fc.tuple(server, tool), fc.tuple(server, tool), (a, b) => {
      expect(mcpToolName(...a)).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
      expect(mcpToolName(...a) === mcpToolName(...b)).toBe(a[0] === b[0] && a[1] === b[1]);
    }),
  );
});

describe('a listed tool', () => {
  test.each([
    ['no tool at all', 5, 'it has no name'],
    ['no name', { inputSchema: { type: 'object' } }, 'it has no name'],
    ['a name without end', { name: 'x'.repeat(257), inputSchema: { type: 'object' } }, 'it has no name'],
    ['no schema', { name: 'x' }, 'not one of an object'],
    ['a schema of something else', { name: 'x', inputSchema: { type: 'array' } }, 'not one of an object'],
    [
      'a huge schema',
      { name: 'x', inputSchema: { type: 'object', $comment: 'y'.repeat(70_000) } },
      'longer than 65536',
    ],
    [
      'a bottomless schema',
      { name: 'x', inputSchema: { type: 'object', not: bottomless(100) } },
      'nested deeper',
    ],
    [
      'half a character',
      { name: 'x', description: '\ud800', inputSchema: { type: 'object' } },
      'lone surrogate',
    ],
  ])('%s cannot be used', (_, raw, problem) => {
    expect(parseListedTool(raw)).toMatchObject({ problem: expect.stringContaining(problem) as unknown });
  });

  test('its texts are cut and cleaned, also in its schema; values are not changed', () => {
    const dirty = 'Reads\u001b[2J a\u202e note\u{e0041}.\r\n';
    const raw = {
      name: 'x',
      description: dirty + 'x'.repeat(5000),
      inputSchema: {
        type: 'object',
        properties: {
          description: { type: 'string', description: dirty },
          enum: { enum: [dirty], title: dirty, default: { description: dirty } },
        },
      },
    };
    const tool = parseListedTool(raw);
    if ('problem' in tool) throw new Error(tool.problem);
    expect(tool.description).toMatch(/^Reads\[2J a note\.\nx+…$/);
    expect(tool.description).toHaveLength(4096);
    expect(tool.inputSchema).toEqual({
      type: 'object',
      properties: {
        description: { type: 'string', description: 'Reads[2J a note.\n' },
        enum: { enum: [dirty], title: 'Reads[2J a note.\n', default: { description: dirty } },
      },
    });
  });

  test('hints are read exactly; absent or invalid ones mean destructive', () => {
    const hints = (annotations: unknown) => {
      const tool = parseListedTool({ name: 'x', inputSchema: { type: 'object' }, annotations });
      return 'problem' in tool ? tool.problem : tool.hints;
    };
    const worst = { readOnly: false, destructive: true };
    for (const annotations of [
      undefined,
      null,
      'readOnlyHint',
      {},
      { readOnlyHint: 'true' },
      { destructiveHint: 0 },
    ])
      expect(hints(annotations)).toEqual(worst);
    expect(hints({ readOnlyHint: true, destructiveHint: false })).toEqual({
      readOnly: true,
      destructive: false,
    });
  });
});

function bottomless(depth: number): unknown {
  return depth === 0 ? {} : { not: bottomless(depth - 1) };
}

describe('the intent member', () => {
  test('is added to a plain schema, and not passed to the tool', () => {
    const { schema, splitArguments: split } = withIntent({
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
      additionalProperties: false,
    });
    expect(schema).toMatchObject({
      additionalProperties: false,
      properties: { a: { type: 'string' }, intent: { type: 'string' } },
      required: ['a', 'intent'],
    });
    expect(split({ a: 'b', intent: 'so' })).toEqual({ intent: 'so', args: { a: 'b' } });
    expect(split({ a: 'b' })).toEqual({ intent: '', args: { a: 'b' } });
  });

  test('does not replace a member of the same name', () => {
    const own = { type: 'object', properties: { intent: { type: 'string' } } };
    const { schema, splitArguments: split } = withIntent(own);
    expect(schema).toBe(own);
    expect(split({ intent: 'so' })).toEqual({ intent: 'so', args: { intent: 'so' } });
  });

  test('is added beside nested arguments when the schema may forbid more members; references still resolve', () => {
    const own = {
      type: 'object',
      anyOf: [{ $ref: '#/$defs/a' }],
      $defs: { a: { properties: { x: {} }, additionalProperties: false } },
    };
    const { schema, splitArguments: split } = withIntent(own);
    expect(schema).toMatchObject({
      $defs: own.$defs,
      properties: { arguments: { type: 'object', anyOf: own.anyOf }, intent: {} },
      required: ['arguments', 'intent'],
    });
    expect(split({ arguments: { x: 1 }, intent: 'so' })).toEqual({ intent: 'so', args: { x: 1 } });
    expect(split({ arguments: 5 })).toEqual({ intent: '', args: {} });
  });
});

const marks = fc.constantFrom(
  ...'a \u202e \u0007 \u200b \u{e0041} 😀 \n \r \t \u009b \ufeff \ud800 \udc00'.split(' '),
);
/** Invisible characters among them, except line breaks and tabs. */
const hidden = /[\u202e\u200b\ufeff\u{e0041}]|(?![\t\n])\p{Cc}/u;

test('texts are cut between characters; JSON escapes invisible characters', () => {
  expect(cutText('ab😀', 3)).toBe('ab…');
  expect(cutText('ab😀c', 4)).toBe('ab…');
  fc.assert(
    fc.property(fc.string({ unit: marks }), fc.integer({ min: 1, max: 20 }), (text, maxLength) => {
      const clean = cleanText(text, maxLength);
      expect(clean.length).toBeLessThanOrEqual(maxLength);
      expect(clean.isWellFormed()).toBe(true);
      expect(clean).not.toMatch(hidden);
      const shown = visibleJson({ text });
      expect(JSON.parse(shown)).toEqual({ text });
      expect(shown).not.toMatch(hidden);
    }),
  );
});

test('every result of a server becomes a text', () => {
  const part = fc.dictionary(
    fc.constantFrom('type', 'text', 'data', 'mimeType', 'uri', 'resource', 'blob'),
    fc.oneof(fc.constantFrom('text', 'image', 'resource', 'audio'), json),
  );
  fc.assert(
    fc.property(fc.array(part), fc.option(json, { nil: undefined }), (content, structuredContent) => {
      const typed = content.map((one) => ({
        ...one,
        type: typeof one['type'] === 'string' ? one['type'] : '',
      }));
      const { output, ok } = toToolOutput({ content: typed, structuredContent });
      expect(typeof output).toBe('string');
      expect(ok).toBe(true);
    }),
  );
});

test('more than 2000 messages within a second are a flood, whatever the wall clock does', () => {
  let now = 0;
  const flooded = createFloodGuard(() => now);
  for (let message = 0; message < 2000; message++) expect(flooded()).toBe(false);
  expect(flooded()).toBe(true);
  now = 1001;
  expect(flooded()).toBe(false);
});

test('only an event stream of short events may be long', async () => {
  const chunk = 'x'.repeat(1024 * 1024);
  const server = await serve((request, response) => {
    const events = request.url === '/events';
    response.writeHead(200, {
      'content-type': events ? 'text/event-stream; charset=utf-8' : 'application/json',
    });
    for (let at = 0; at < 10; at++) response.write(events ? `data: ${chunk}\n\n` : chunk);
    response.end();
  });
  const errors: Error[] = [];
  const fetching = limitedFetch((error) => errors.push(error));
  expect((await (await fetching(`${server.url}/events`)).text()).length).toBe(10 * (chunk.length + 8));
  expect(errors).toEqual([]);
  await expect((await fetching(`${server.url}/json`)).text()).rejects.toThrow('more than 8388608 bytes');
  expect(errors).toHaveLength(1);
  await server.close();
});
