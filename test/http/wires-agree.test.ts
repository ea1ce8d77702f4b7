import { describe, expect, test } from 'vitest';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const weather = { name: 'weather', description: 'The weather in a city.' };
const city = (name: string) => ({ city: name });

/** One conversation with tools, as each wire writes it. */
const chat = {
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Weather in Oslo and Rome?' },
    {
      role: 'assistant',
      content: 'I look.',
      tool_calls: ['Oslo', 'Rome'].map((name, index) => ({
        id: `call_${index}`,
        type: 'function',
        function: { name: 'weather', arguments: JSON.stringify(city(name)) },
      })),
    },
    { role: 'tool', tool_call_id: 'call_0', content: 'rain' },
    { role: 'tool', tool_call_id: 'call_1', content: 'sun' },
    { role: 'assistant', content: 'Rain and sun.' },
    { role: 'user', content: 'And Ulm?' },
  ],
  tools: [{ type: 'function', function: { ...weather, parameters: schema } }],
  max_tokens: 50,
  temperature: 0.5,
  stop: ['END'],
};
const responses = {
  instructions: 'Be brief.',
  input: [
    { role: 'user', content: 'Weather in Oslo and Rome?' },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
    ...['Oslo', 'Rome'].map((name, index) => ({
      type: 'function_call',
      call_id: `call_${index}`,
      name: 'weather',
      arguments: JSON.stringify(city(name)),
    })),
    { type: 'function_call_output', call_id: 'call_0', output: 'rain' },
    { type: 'function_call_output', call_id: 'call_1', output: 'sun' },
    { role: 'assistant', content: 'Rain and sun.' },
    { role: 'user', content: [{ type: 'input_text', text: 'And Ulm?' }] },
  ],
  tools: [{ type: 'function', ...weather, parameters: schema }],
  max_output_tokens: 50,
  temperature: 0.5,
  stop: 'END',
};
const messages = {
  system: [{ type: 'text', text: 'Be brief.' }],
  messages: [
    { role: 'user', content: 'Weather in Oslo and Rome?' },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'I look.' },
        ...['Oslo', 'Rome'].map((name, index) => ({
          type: 'tool_use',
          id: `call_${index}`,
          name: 'weather',
          input: city(name),
        })),
      ],
    },
    {
      role: 'user',
      content: ['rain', 'sun'].map((content, index) => ({
        type: 'tool_result',
        tool_use_id: `call_${index}`,
        content,
      })),
    },
    { role: 'assistant', content: [{ type: 'text', text: 'Rain and sun.' }] },
    { role: 'user', content: 'And Ulm?' },
  ],
  tools: [{ ...weather, input_schema: schema }],
  max_tokens: 50,
  temperature: 0.5,
  stop_sequences: ['END'],
};

describe('one conversation on every wire', () => {
  test('results in the same engine request, token by token', async () => {
    const { post, engine, grammars } = await serve();
    for (const [path, body] of [
      ['/v1/chat/completions', chat],
      ['/v1/responses', responses],
      ['/v1/messages', messages],
    ] as const) {
      expect((await post(path, body)).status).toBe(200);
    }
    const engineRequests = engine.requests.map(
      ({ prompt, maxTokens, stop, visible, constraint, sampling }) => ({
        prompt,
        maxTokens,
        stop,
        visible,
        bound: constraint !== undefined,
        sampling: { ...sampling, seed: 0 },
      }),
    );
    expect(engineRequests).toHaveLength(3);
    expect(engineRequests[1]).toEqual(engineRequests[0]);
    expect(engineRequests[2]).toEqual(engineRequests[0]);
    expect(grammars.compiled[1]).toEqual(grammars.compiled[0]);
    expect(grammars.compiled[2]).toEqual(grammars.compiled[0]);
  });

  test.each([
    ['auto', 'auto', { type: 'auto' }],
    ['required', 'required', { type: 'any' }],
    [
      { type: 'function', function: { name: 'weather' } },
      { type: 'function', name: 'weather' },
      { type: 'tool', name: 'weather' },
    ],
    ['none', 'none', { type: 'none' }],
  ])('the tool choice %j has the same meaning', async (ofChat, ofResponses, ofMessages) => {
    const { post, engine, grammars } = await serve();
    await post('/v1/chat/completions', { ...chat, tool_choice: ofChat, parallel_tool_calls: false });
    await post('/v1/responses', { ...responses, tool_choice: ofResponses, parallel_tool_calls: false });
    const alone = ofChat === 'none' ? {} : { disable_parallel_tool_use: true };
    await post('/v1/messages', { ...messages, tool_choice: { ...ofMessages, ...alone } });
    const prompts = engine.requests.map(({ prompt }) => prompt);
    expect(prompts).toHaveLength(3);
    expect(prompts[1]).toEqual(prompts[0]);
    expect(prompts[2]).toEqual(prompts[0]);
    expect(new Set(grammars.compiled.map((source) => JSON.stringify(source))).size).toBeLessThan(2);
    expect(grammars.compiled.length % 3).toBe(0);
  });
});
