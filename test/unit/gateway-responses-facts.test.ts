import { describe, expect, test } from 'vitest';
import { WireError } from '../../src/wires/core/error.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';

const facts = (body: Record<string, unknown>) => responsesWire.facts(body, JSON.stringify(body));
const fault = (body: Record<string, unknown>): WireError => {
  try {
    facts(body);
  } catch (error) {
    if (error instanceof WireError) return error;
    throw error;
  }
  throw new Error('nothing was wrong');
};
const image = 'data:image/png;base64,iVBORw0KGgo=';

describe('what the gateway knows of a request to responses', () => {
  test('a text', () => {
    expect(facts({ model: 'm', input: 'Grüße' })).toEqual({
      model: 'm',
      stream: false,
      includeUsage: false,
      maxTokens: undefined,
      answers: 1,
      needs: [],
      textBytes: 7,
      parts: 1,
      images: 0,
      fileBytes: 0,
      prefix: 'Grüße',
    });
  });

  test('items, tools and a format: all text counts, base64 does not', () => {
    const tools = [{ type: 'function', name: 'weather', parameters: { type: 'object' } }];
    const format = { type: 'json_schema', name: 'x', schema: {} };
    const known = facts({
      model: 'm',
      instructions: 'Be brief.',
      input: [
        { role: 'user', content: 'a' },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'bc' },
            { type: 'input_image', image_url: image },
            {
              type: 'input_file',
              filename: 'f',
              file_data: `data:application/pdf;base64,${'A'.repeat(400)}`,
            },
          ],
        },
        {
          type: 'reasoning',
          id: 'rs_1',
          summary: [{ type: 'summary_text', text: 'd' }],
          encrypted_content: 'ee',
        },
        { type: 'function_call', call_id: 'c', name: 'n', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: 'ff' },
      ],
      tools,
      text: { format },
      stream: true,
      stream_options: { include_usage: true },
      max_output_tokens: 99,
    });
    const bytes = 'Be brief.abcfdee'.length + 'n{}ff'.length;
    expect(known).toMatchObject({
      stream: true,
      includeUsage: true,
      maxTokens: 99,
      textBytes: bytes + JSON.stringify(tools[0]).length + JSON.stringify(format).length,
      images: 1,
      fileBytes: 300,
      needs: [
        { cap: 'tools', param: 'tools' },
        { cap: 'images', param: 'input' },
        { cap: 'structured_output', param: 'text.format' },
      ],
    });
    expect(known.prefix).toBe('Be brief.abcfdeen{}ff');
  });

  test('unknown items are counted as JSON, without their images', () => {
    const item = { type: 'computer_call_output', call_id: 'c', output: { image_url: image } };
    const { textBytes, images } = facts({ model: 'm', input: [item] });
    expect(images).toBe(1);
    expect(textBytes).toBe(JSON.stringify(item).length - image.length);
  });

  test.each([
    ['a hosted tool', { input: 'x', tools: [{ type: 'web_search' }] }],
    [
      'a file behind a URL',
      { input: [{ role: 'user', content: [{ type: 'input_file', file_url: 'https://x' }] }] },
    ],
  ])('the input of %s has no known size: it counts as a file', (_, body) => {
    const { fileBytes, textBytes } = facts({ model: 'm', ...body });
    expect(fileBytes).toBeGreaterThan(0);
    expect(textBytes).toBeLessThan(200);
  });

  test('the prefix has 4096 characters at most', () => {
    expect(facts({ model: 'm', input: 'a'.repeat(9000) }).prefix).toHaveLength(4096);
  });

  test.each(['previous_response_id', 'conversation', 'prompt'])(
    '%s is refused: nothing is stored',
    (param) => {
      const error = fault({ model: 'm', input: 'x', [param]: 'resp_1' });
      expect(error).toMatchObject({ status: 400, code: 'unsupported_parameter', param });
      expect(error.message).toMatch(/send/);
      expect(facts({ model: 'm', input: 'x', [param]: null }).model).toBe('m');
    },
  );

  test('so are answers in the background, references to items, and files by their ids', () => {
    expect(fault({ model: 'm', input: 'x', background: true })).toMatchObject({ param: 'background' });
    expect(fault({ model: 'm', input: [{ type: 'item_reference', id: 'msg_1' }] })).toMatchObject({
      code: 'unsupported_parameter',
      param: 'input.0',
    });
    expect(fault({ model: 'm', input: [{ id: 'msg_1' }] })).toMatchObject({ param: 'input.0' });
    const content = [{ type: 'input_image', file_id: 'file_1' }];
    expect(fault({ model: 'm', input: [{ role: 'user', content }] })).toMatchObject({
      param: 'input.0.content.0.file_id',
    });
    expect(facts({ model: 'm', input: 'x', background: false, store: true }).model).toBe('m');
  });

  test('all violations are reported at once', () => {
    const error = fault({ model: '', input: 7, stream: 'yes', max_output_tokens: 0, background: true });
    expect(error.violations?.map(({ path }) => path)).toEqual([
      'background',
      'model',
      'stream',
      'max_output_tokens',
      'input',
    ]);
    expect(error.code).toBeUndefined();
  });

  test('excessive nesting is refused without a crash', () => {
    let deep: unknown = {};
    for (let level = 0; level < 200_000; level++) deep = [deep];
    const violation = { path: 'tools.0', message: 'expected JSON with fewer levels of nesting' };
    expect(() =>
      responsesWire.facts({ model: 'm', input: 'x', tools: [{ type: 'function', deep }] }, ''),
    ).toThrow(expect.objectContaining({ status: 400, violations: [violation] }));
  });
});
