import { expect } from 'vitest';
import { readNamedEvents } from '../named-events.ts';
import { hi, other, row, type Row } from './row.ts';

const toolCall = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>';
const anthropicTool = {
  name: 'get_weather',
  description: 'The weather in a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
/** Anthropic's messages and OpenAI's responses. */
export const otherWireRows: readonly Row[] = [
  row(
    'compat_anthropic',
    'a message with all members; system, parts, several turns, sampling and metadata',
    async ({ ask }) => {
      const content = [
        { type: 'text', text: 'What is' },
        { type: 'text', text: ' the answer?' },
      ];
      const assistant = { role: 'assistant', content: 'Hi there!' };
      for (const more of [
        { system: 'You are helpful.' },
        { messages: [{ role: 'user', content }] },
        { messages: [...hi, assistant, ...hi] },
        { stop_sequences: ['\n', 'END'] },
        { temperature: 0.5, top_p: 0.9, top_k: 40 },
        { metadata: { user_id: 'someone' } },
        { thinking: { type: 'enabled', budget_tokens: 50 } },
      ]) {
        const { body } = await ask('/v1/messages', {
          model: 'scripted',
          max_tokens: 100,
          messages: hi,
          ...more,
        });
        expect(body).toMatchObject({
          type: 'message',
          role: 'assistant',
          content: [{ type: 'text', text: 'Hello, world!' }],
          stop_reason: 'end_turn',
          usage: { cache_read_input_tokens: 0, output_tokens: 4 },
        });
        expect(body).not.toHaveProperty('timings');
      }
      const { status, body: refused } = await ask('/v1/messages', { model: 'scripted', max_tokens: 50 });
      expect([status, refused]).toMatchObject([400, { type: 'error' }]);
    },
  ),
  row(
    'compat_anthropic',
    'a stream has every event in order, with blocks numbered from 0',
    async ({ serve }) => {
      const { post } = await serve({ answer: () => ['Look: ', ...Array.from(toolCall)] });
      const request = {
        model: 'scripted',
        max_tokens: 500,
        messages: hi,
        tools: [anthropicTool],
        stream: true,
      };
      const events = await readNamedEvents(await post('/v1/messages', request));
      const names = events.map(({ name }) => name).filter((name) => name !== 'ping');
      expect(names.filter((name, at) => name !== names[at - 1])).toEqual([
        'message_start',
        'content_block_start',
        'content_block_delta',
        'content_block_stop',
        'content_block_start',
        'content_block_delta',
        'content_block_stop',
        'message_delta',
        'message_stop',
      ]);
      const starts = events.filter(({ name }) => name === 'content_block_start').map(({ data }) => data);
      expect(starts).toMatchObject([
        { index: 0, content_block: { type: 'text' } },
        { index: 1, content_block: { type: 'tool_use', name: 'get_weather' } },
      ]);
    },
  ),
  row('compat_anthropic', 'tools; results as text or failure, beside other text', async ({ ask }) => {
    const { body } = await ask(
      '/v1/messages',
      { model: 'scripted', max_tokens: 500, messages: hi, tools: [anthropicTool] },
      { answer: () => Array.from(toolCall) },
    );
    const called = { type: 'tool_use', name: 'get_weather', input: { city: 'Paris' } };
    expect(body).toMatchObject({ stop_reason: 'tool_use', content: [called] });
    const result = { type: 'tool_result', tool_use_id: 't1', content: 'sunny' };
    for (const content of [
      [result],
      [{ ...result, is_error: true }],
      [{ type: 'text', text: 'Here:' }, result],
    ]) {
      const turns = [
        ...hi,
        { role: 'assistant', content: [{ ...called, id: 't1' }] },
        { role: 'user', content },
      ];
      const answer = await ask('/v1/messages', { model: 'scripted', max_tokens: 5, messages: turns });
      expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    }
  }),
  row('compat_anthropic', 'tokens are counted without `max_tokens`', async ({ ask }) => {
    const request = { model: 'scripted', system: 'Be brief.', messages: hi };
    const { body } = await ask('/v1/messages/count_tokens', request);
    expect(body).toEqual({ input_tokens: expect.any(Number) as number });
  }),
  row('compat_anthropic', 'an image is refused in words', async ({ ask }) => {
    const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' };
    const messages = [{ role: 'user', content: [{ type: 'image', source }] }];
    const { status, body } = await ask('/v1/messages', { model: 'scripted', max_tokens: 5, messages });
    expect([status, JSON.stringify(body)]).toEqual([400, expect.stringMatching(/image/)]);
  }),
  other('compat_anthropic', 'no messages at all', "refused, as Anthropic's"),
  row(
    'compat_oai_responses',
    'ids of response and message, the same in every event; the text is that of the deltas',
    async ({ clientAt }) => {
      const openai = await clientAt();
      const input = [
        { role: 'system' as const, content: 'Book' },
        { role: 'user' as const, content: 'What is the best book' },
      ];
      const stream = await openai.responses.create({ model: 'scripted', input, stream: true });
      const ids = new Set<string>();
      let text = '';
      for await (const event of stream) {
        if ('response' in event) ids.add(event.response.id);
        if ('item_id' in event) ids.add(event.item_id);
        if (event.type === 'response.output_text.delta') text += event.delta;
        if (event.type === 'response.completed')
          expect(event.response.output).toMatchObject([{ content: [{ text }] }]);
      }
      expect([...ids]).toEqual([expect.stringMatching(/^resp_/), expect.stringMatching(/^msg_/)]);
      expect(text).toBe('Hello, world!');
    },
  ),
  row(
    'compat_oai_responses',
    'formats of the text; a schema that is missing is refused',
    async ({ ask, isRefused }) => {
      for (const format of [
        { type: 'json_schema', name: 'test', schema: { const: 'foo' } },
        { type: 'json_object' },
        { type: 'text' },
      ])
        expect((await ask('/responses', { input: 'hi', text: { format } })).status).toBe(200);
      await isRefused('/responses', { input: 'hi', text: { format: { type: 'json_schema', name: 'test' } } });
    },
  ),
  other(
    'compat_oai_responses',
    '`timings` and `prompt_progress` in events',
    'on chat, completions and `/completion`',
  ),
];
