import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { openaiError } from '../../src/planes/error-schema.ts';
import { responseEvent, responseObject } from '../../src/wires/responses/answer-schema.ts';
import { readNamedEvents } from '../support/named-events.ts';
import { scriptedServers } from '../support/serve.ts';
import { thinkingTemplate } from '../support/thinking-template.ts';

const serve = scriptedServers();
const route = '/v1/responses';
const callOf = (name: string, args: object) =>
  `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
const grammar = (syntax: string, definition: string) => ({ type: 'grammar', syntax, definition });
const custom = (name: string, format?: object) => ({ type: 'custom', name, description: 'd', format });

describe('custom tools', () => {
  test('the call has the text; its output goes back to the model', async () => {
    const text = 'print("ü")\n\t# 🦊';
    const answers = [callOf('code', { input: text }), 'Done.'];
    const { post, engine } = await serve({
      chatTemplate: thinkingTemplate,
      answer: () => [answers.shift() ?? 'Done.'],
    });
    const tools = [custom('code'), { type: 'function', name: 'other' }];
    const body = responseObject.strict().parse(await (await post(route, { input: 'Do it.', tools })).json());
    const [call] = body.output;
    expect(call).toEqual({
      id: expect.stringMatching(/^ctc_\w{32}$/),
      type: 'custom_tool_call',
      status: 'completed',
      call_id: expect.stringMatching(/^call_/),
      name: 'code',
      input: text,
    });
    expect(body.tools[0]).toEqual({
      type: 'custom',
      name: 'code',
      description: 'd',
      format: { type: 'text' },
    });
    if (call?.type !== 'custom_tool_call') throw new Error('no call');
    const output = { type: 'custom_tool_call_output', call_id: call.call_id, output: 'It printed.' };
    await post(route, { input: [{ role: 'user', content: 'Do it.' }, call, output], tools });
    const prompt = engine.tokenizer.decode(engine.requests[1]?.prompt ?? []);
    expect(prompt).toContain('It printed.');
    expect(prompt).toContain('# 🦊');
    const lost = await post(route, { input: [output], tools });
    expect(openaiError.parse(await lost.json()).error).toMatchObject({
      param: 'input.0.call_id',
      message: expect.stringContaining('custom_tool_call'),
    });
  });

  test('streamed: the text in pieces, as events that OpenAI’s client reads', async () => {
    const whole = callOf('code', { input: 'a\n"b" ü' });
    const { post, url } = await serve({ chatTemplate: thinkingTemplate, answer: () => Array.from(whole) });
    const events = await readNamedEvents(
      await post(route, { input: 'Do it.', tools: [custom('code')], stream: true }),
    );
    const parsed = events.map(({ data }) => responseEvent.parse(data));
    expect(parsed).toEqual(events.map(({ data }) => data));
    const deltas = parsed.flatMap((event) =>
      event.type === 'response.custom_tool_call_input.delta' ? [event.delta] : [],
    );
    expect(deltas.length).toBeGreaterThan(3);
    expect(deltas.join('')).toBe('a\n"b" ü');
    expect(parsed.map(({ type }) => type)).not.toContain('response.function_call_arguments.delta');
    expect(parsed.find(({ type }) => type === 'response.output_item.added')).toMatchObject({
      item: { type: 'custom_tool_call', status: 'in_progress', input: '' },
    });
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    const final = await client.responses
      .stream({ model: 'scripted', input: 'Do it.', tools: [{ type: 'custom', name: 'code' }] })
      .finalResponse();
    expect(final.output).toMatchObject([{ type: 'custom_tool_call', name: 'code', input: 'a\n"b" ü' }]);
  });

  test('a truncated call is incomplete', async () => {
    const { post } = await serve({
      chatTemplate: thinkingTemplate,
      answer: () => [callOf('code', { input: 'abc' }).split('c"}')[0] ?? ''],
    });
    const body = responseObject.parse(
      await (await post(route, { input: 'Do it.', tools: [custom('code')] })).json(),
    );
    expect(body.output).toMatchObject([{ type: 'custom_tool_call', status: 'incomplete', input: 'ab' }]);
  });

  test('a grammar binds the text', async () => {
    const { post, grammars } = await serve({ chatTemplate: thinkingTemplate });
    const tools = [
      custom('regex', grammar('regex', '[0-9]{4}')),
      custom('lark', grammar('lark', 'start: "a" INT\n%import common.INT')),
    ];
    for (const tool_choice of ['required', { type: 'custom', name: 'lark' }])
      expect((await post(route, { input: 'x', tools, tool_choice })).status).toBe(200);
    const [both, one] = grammars.compiled.map((compiled) => JSON.stringify(compiled));
    expect(both).toContain(JSON.stringify('^(?:[0-9]{4})$'));
    expect(both).toContain(JSON.stringify('^(?:(?:(?:a)(?:[0-9]+)))$'));
    expect(one).not.toContain('[0-9]{4}');
  });

  test('what cannot be enforced is refused by its place, all at once', async () => {
    const { post } = await serve();
    const response = await post(route, {
      input: 'x',
      tools: [
        custom('a', grammar('regex', '(')),
        custom('b', grammar('lark', 'start: a\na: "(" a ")"')),
        custom('c', grammar('regex', '(?<=x)y')),
        custom('c'),
      ],
      tool_choice: { type: 'custom', name: 'd' },
    });
    expect(response.status).toBe(400);
    const { violations, message } = openaiError.parse(await response.json()).error;
    expect(violations?.map(({ path }) => path)).toEqual([
      'tools.0.format.definition',
      'tools.1.format.definition',
      'tools.2.format.definition',
      'tools.3.name',
      'tool_choice.name',
    ]);
    expect(message).toContain('only rules without recursion');
    const malformed = await post(route, {
      input: 'x',
      tools: [
        custom('a', grammar('ebnf', 'x')),
        custom('b', { type: 'json' }),
        { type: 'custom', custom: { name: 'c' } },
      ],
    });
    expect(openaiError.parse(await malformed.json()).error.violations?.map(({ path }) => path)).toEqual([
      'tools.0.format.syntax',
      'tools.1.format.type',
      'tools.2.custom',
      'tools.2.name',
    ]);
  });
});
