import { describe, expect, test } from 'vitest';
import { aiSdks } from '../support/ai-sdks.ts';
import type { Script } from '../support/scripted-engine.ts';
import { scriptedServers } from '../support/serve.ts';
import { thinkingTemplate } from '../support/thinking-template.ts';

const serve = scriptedServers();
const call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
/** Calls the tool, and answers when its result is there. */
const calls: Script['answer'] = ({ prompt }) =>
  Buffer.from(prompt.filter((id) => id < 256)).includes('rain') ? ['It ', 'rains.'] : Array.from(call);
const schema = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const } },
  required: ['city'],
  additionalProperties: false,
};

describe.each(aiSdks)('AI SDK $version with its Anthropic provider', ({ version, sdk, create }) => {
  async function client(script: Script = {}) {
    const host = await serve(script);
    const model = create({ baseURL: `${host.url}/v1`, apiKey: 'none' })('scripted');
    return { host, ask: { model, maxRetries: 0, maxOutputTokens: 1000, prompt: 'hi' } };
  }
  const tools = {
    weather: sdk.tool({
      description: 'The weather in a city.',
      inputSchema: sdk.jsonSchema<{ city: string }>(schema),
      execute: () => 'rain',
    }),
  };
  const looped = { tools, stopWhen: sdk.stepCountIs(3) };

  test('generateText reads a buffered answer', async () => {
    const { ask } = await client();
    const { text, finishReason, warnings } = await sdk.generateText(ask);
    expect({ text, finishReason, warnings: warnings ?? [] }).toEqual({
      text: 'Hello, world!',
      finishReason: 'stop',
      warnings: [],
    });
  });

  test('streamText reads the same as it comes', async () => {
    const { ask } = await client();
    const result = sdk.streamText(ask);
    const pieces: string[] = [];
    for await (const piece of result.textStream) pieces.push(piece);
    expect(pieces).toEqual(['Hello', ', ', 'world', '!']);
    expect(await result.finishReason).toBe('stop');
  });

  test('usage is the same, buffered and streamed, with what the cache had apart', async () => {
    const { ask } = await client({ cached: 5 });
    const buffered = (await sdk.generateText(ask)).usage;
    const { inputTokens, outputTokens, totalTokens } = buffered;
    expect(inputTokens).toBeGreaterThan(5);
    expect([outputTokens, totalTokens]).toEqual([4, (inputTokens ?? 0) + 4]);
    const usage = await sdk.streamText(ask).usage;
    expect({ ...usage, raw: undefined }).toEqual({ ...buffered, raw: undefined });
    if (version === 5) expect(usage).toMatchObject({ cachedInputTokens: 5 });
    else expect(usage).toMatchObject({ inputTokenDetails: { cacheReadTokens: 5 } });
  });

  test('a tool is called, its result goes back, and the model answers', async () => {
    const { ask, host } = await client({ answer: calls });
    const { text, steps } = await sdk.generateText({ ...ask, ...looped });
    expect(text).toBe('It rains.');
    expect(steps[0]?.toolCalls).toMatchObject([{ toolName: 'weather', input: { city: 'Oslo' } }]);
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop']);
    expect(host.engine.requests).toHaveLength(2);
  });

  test('the same, streamed', async () => {
    const { ask } = await client({ answer: calls });
    const result = sdk.streamText({ ...ask, ...looped });
    expect(await result.text).toBe('It rains.');
    const [first] = await result.steps;
    expect(first?.toolCalls).toMatchObject([{ toolName: 'weather', input: { city: 'Oslo' } }]);
  });

  test.each(['outputFormat', 'jsonTool'] as const)(
    'an object of a schema is generated and streamed, as %s',
    async (structuredOutputMode) => {
      const object = '{"city": "Oslo"}';
      const asTool = structuredOutputMode === 'jsonTool';
      const written = asTool ? `<tool_call>\n{"name": "json", "arguments": ${object}}\n</tool_call>` : object;
      const { ask, host } = await client({ answer: () => Array.from(written) });
      const request = {
        ...ask,
        schema: sdk.jsonSchema<{ city: string }>(schema),
        providerOptions: { anthropic: { structuredOutputMode } },
      };
      expect((await sdk.generateObject(request)).object).toEqual({ city: 'Oslo' });
      const streamed = sdk.streamObject(request);
      let last: unknown;
      for await (const partial of streamed.partialObjectStream) last = partial;
      expect([last, await streamed.object]).toEqual([{ city: 'Oslo' }, { city: 'Oslo' }]);
      expect(host.grammars.compiled).toHaveLength(2);
    },
  );

  test('reasoning is apart from the text, buffered and streamed', async () => {
    const answer = () => ['<think>', 'I see.', '</think>', 'Yes.'];
    const { ask } = await client({ answer, chatTemplate: thinkingTemplate });
    const request = {
      ...ask,
      maxOutputTokens: 2000,
      providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
    };
    const buffered = await sdk.generateText(request);
    expect([buffered.reasoningText, buffered.text]).toEqual(['I see.', 'Yes.']);
    const streamed = sdk.streamText(request);
    expect([await streamed.text, await streamed.reasoningText]).toEqual(['Yes.', 'I see.']);
  });

  test("a refusal is the client's own error, with the host's words", async () => {
    const { host } = await client();
    const model = create({ baseURL: `${host.url}/v1`, apiKey: 'none' })('claude-9');
    const answer = sdk.generateText({ model, prompt: 'hi', maxRetries: 0 });
    await expect(answer).rejects.toMatchObject({
      statusCode: 404,
      message: expect.stringContaining('claude-9'),
    });
  });
});
