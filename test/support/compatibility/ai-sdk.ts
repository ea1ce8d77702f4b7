import { expect } from 'vitest';
import { aiSdks } from '../ai-sdks.ts';
import {
  answerOf,
  type Client,
  checkFreed,
  checkPerson,
  checkWeatherCall,
  person,
  personQuestion,
  png,
  question,
  stopWord,
  weather,
  weatherAnswer,
  weatherQuestion,
  weatherResult,
} from './features.ts';

function clientOf({ version, sdk, create }: (typeof aiSdks)[number]): Client {
  const modelAt = (url: string, id = 'lathe-tiny') => create({ baseURL: `${url}/v1`, apiKey: 'none' })(id);
  const ask = (url: string, prompt: string) => ({
    model: modelAt(url),
    maxOutputTokens: 100,
    temperature: 0,
    maxRetries: 0,
    prompt,
  });
  const inputSchema = sdk.jsonSchema<{ city: string }>(weather.parameters);
  const { description } = weather;
  /** Without what would run it, the call is the answer. */
  const tools = { [weather.name]: { description, inputSchema } };
  const run = { [weather.name]: sdk.tool({ description, inputSchema, execute: () => weatherResult }) };
  const structured = (url: string) => ({
    ...ask(url, personQuestion),
    schema: sdk.jsonSchema(person),
    providerOptions: { anthropic: { structuredOutputMode: 'outputFormat' } },
  });
  return {
    name: `AI SDK ${version}`,
    checks: {
      async buffered({ url }) {
        const { text, finishReason } = await sdk.generateText(ask(url, question));
        expect(text).toMatch(answerOf);
        expect(finishReason).toBe('stop');
      },
      async streamed({ url }) {
        const { text } = await sdk.generateText(ask(url, question));
        let streamed = '';
        for await (const piece of sdk.streamText(ask(url, question)).textStream) streamed += piece;
        expect(streamed).toBe(text);
      },
      async usage({ url }) {
        // The first one fills the cache.
        await sdk.generateText(ask(url, question));
        const { usage } = await sdk.generateText(ask(url, question));
        const streamed = await sdk.streamText(ask(url, question)).usage;
        expect({ ...streamed, raw: undefined }).toEqual({ ...usage, raw: undefined });
        expect(usage.outputTokens).toBeGreaterThan(3);
        expect(usage.totalTokens).toBe((usage.inputTokens ?? 0) + (usage.outputTokens ?? 0));
      },
      async tool({ url }) {
        const { toolCalls } = await sdk.generateText({ ...ask(url, weatherQuestion), tools: tools });
        checkWeatherCall(toolCalls[0]?.toolName, toolCalls[0]?.input);
      },
      async toolStreamed({ url }) {
        const result = sdk.streamText({ ...ask(url, 'Hello!'), tools: tools, toolChoice: 'required' });
        const [call] = await result.toolCalls;
        checkWeatherCall(call?.toolName, call?.input);
      },
      async toolLoop({ url }) {
        const looped = { ...ask(url, weatherQuestion), tools: run, stopWhen: sdk.stepCountIs(3) };
        expect((await sdk.generateText(looped)).text).toMatch(weatherAnswer);
        expect(await sdk.streamText(looped).text).toMatch(weatherAnswer);
      },
      async schema({ url }) {
        checkPerson(JSON.stringify((await sdk.generateObject(structured(url))).object));
        const streamed = sdk.streamObject(structured(url));
        for await (const _ of streamed.partialObjectStream);
        checkPerson(JSON.stringify(await streamed.object));
      },
      async stop({ url }) {
        const { text, finishReason } = await sdk.generateText({
          ...ask(url, question),
          stopSequences: [stopWord],
        });
        expect(text).not.toContain(stopWord);
        expect(finishReason).toBe('stop');
      },
      abort: (places) =>
        checkFreed(places, async () => {
          const leaving = new AbortController();
          const result = sdk.streamText({
            ...ask(places.url, 'Tell me a story about an owl named Mia.'),
            maxOutputTokens: 900,
            temperature: 1,
            abortSignal: leaving.signal,
          });
          for await (const _ of result.textStream) {
            leaving.abort();
            break;
          }
        }),
      async image({ url }) {
        const { prompt: _, ...settings } = ask(url, '');
        const answer = sdk.generateText({
          ...settings,
          messages: [{ role: 'user', content: [{ type: 'image', image: png, mediaType: 'image/png' }] }],
        });
        await expect(answer).rejects.toThrow(/image/);
        await expect(answer).rejects.toMatchObject({ statusCode: 400 });
      },
      async unknown({ url }) {
        const answer = sdk.generateText({ ...ask(url, 'hi'), model: modelAt(url, 'claude-9') });
        await expect(answer).rejects.toMatchObject({ name: 'AI_APICallError', statusCode: 404 });
      },
      async invalid({ url }) {
        // The provider itself bounds the temperature.
        const answer = sdk.generateText({ ...ask(url, 'hi'), maxOutputTokens: 1, topK: -9 });
        await expect(answer).rejects.toThrow(/top_k/);
      },
    },
  };
}

export const aiSdkClients: readonly Client[] = aiSdks.map(clientOf);
