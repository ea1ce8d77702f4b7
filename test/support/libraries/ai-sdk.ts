import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  embedMany,
  type EmbeddingModel,
  generateText,
  jsonSchema,
  type LanguageModel,
  Output,
  stepCountIs,
  streamText,
  tool,
} from 'ai';
import { expect } from 'vitest';
import { checkAbandoned, type Library } from './checks.ts';
import {
  answer,
  introduction,
  nameAnswer,
  nameQuestion,
  person,
  personQuestion,
  question,
  storyQuestion,
  twoCitiesAnswer,
  twoCitiesQuestion,
  weatherAnswer,
  weatherQuestion,
  weatherResult,
  weatherTool,
} from './conversation.ts';
import type { Place } from './places.ts';

const personOutput = Output.object({
  schema: jsonSchema<typeof person>({
    type: 'object',
    properties: { name: { type: 'string' }, age: { type: 'integer' } },
    required: ['name', 'age'],
    additionalProperties: false,
  }),
});

/** A provider of the AI SDK; the older generations are tested with Anthropic's in the table above. */
interface Provider {
  readonly name: string;
  readonly wire: 'chat' | 'responses';
  readonly model: (place: Place, id: string) => LanguageModel;
  readonly embedding?: (place: Place) => EmbeddingModel;
}

function aiSdk({ name, wire, model, embedding }: Provider): Library {
  const ask = (place: Place, prompt: string, id = place[wire]) => ({
    model: model(place, id),
    maxRetries: 0,
    prompt,
  });
  const looped = (cities: string[]) => ({
    stopWhen: stepCountIs(3),
    tools: {
      [weatherTool]: tool({
        description: 'The weather in a city.',
        inputSchema: jsonSchema<{ city: string }>({
          type: 'object',
          properties: { city: { type: 'string' } },
          required: ['city'],
          additionalProperties: false,
        }),
        execute({ city }) {
          cities.push(city);
          return city === 'Rome' ? weatherResult : `${weatherResult} in ${city}`;
        },
      }),
    },
  });
  return {
    name: `AI SDK 7, ${name}`,
    places: ['host', 'gateway'],
    hostOnly: ['stored'],
    checks: {
      async buffered(place) {
        expect((await generateText(ask(place, question))).text).toBe(answer);
      },
      async streamed(place) {
        const pieces: string[] = [];
        for await (const piece of streamText(ask(place, question)).textStream) pieces.push(piece);
        expect(pieces.join('')).toBe(answer);
        expect(pieces.length).toBeGreaterThan(3);
      },
      async usage(place) {
        const { usage } = await generateText(ask(place, question));
        const streamed = await streamText(ask(place, question)).usage;
        expect({ ...streamed, raw: undefined }).toEqual({ ...usage, raw: undefined });
        expect(usage.outputTokens).toBeGreaterThan(3);
        expect(usage.totalTokens).toBe((usage.inputTokens ?? 0) + (usage.outputTokens ?? 0));
      },
      async tool(place) {
        const cities: string[] = [];
        const { text } = await generateText({ ...ask(place, weatherQuestion), ...looped(cities) });
        expect([cities, text]).toEqual([['Rome'], weatherAnswer]);
      },
      async toolStreamed(place) {
        const cities: string[] = [];
        const text = await streamText({ ...ask(place, weatherQuestion), ...looped(cities) }).text;
        expect([cities, text]).toEqual([['Rome'], weatherAnswer]);
      },
      async parallel(place) {
        const cities: string[] = [];
        const { text } = await generateText({ ...ask(place, twoCitiesQuestion), ...looped(cities) });
        expect([cities.toSorted(), text]).toEqual([['Oslo', 'Rome'], twoCitiesAnswer]);
      },
      async schema(place) {
        const request = { ...ask(place, personQuestion), output: personOutput };
        expect((await generateText(request)).output).toEqual(person);
        expect(await streamText(request).output).toEqual(person);
      },
      ...(wire === 'responses' && {
        async stored(place: Place) {
          const { providerMetadata } = await generateText(ask(place, introduction));
          const previousResponseId = providerMetadata?.['openai']?.['responseId'] ?? null;
          const request = {
            ...ask(place, nameQuestion),
            providerOptions: { openai: { previousResponseId } },
          };
          expect((await generateText(request)).text).toBe(nameAnswer);
        },
      }),
      ...(embedding && {
        async embeddings(place: Place) {
          const { embeddings } = await embedMany({
            model: embedding(place),
            values: ['a', 'b'],
            maxRetries: 0,
          });
          expect(embeddings).toHaveLength(2);
          for (const vector of embeddings) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
        },
      }),
      async unknown(place) {
        const refused = generateText(ask(place, question, 'gpt-9'));
        await expect(refused).rejects.toMatchObject({ name: 'AI_APICallError', statusCode: 404 });
      },
      async badKey(place) {
        const refused = generateText(ask({ ...place, key: 'wrong-key' }, question));
        await expect(refused).rejects.toMatchObject({ name: 'AI_APICallError', statusCode: 401 });
      },
      abort: (place) =>
        checkAbandoned(place, async () => {
          const leaving = new AbortController();
          const { textStream } = streamText({ ...ask(place, storyQuestion), abortSignal: leaving.signal });
          for await (const _ of textStream) leaving.abort();
        }),
    },
  };
}

const openai = ({ url, key }: Place) => createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
const compatible = ({ url, key }: Place) =>
  createOpenAICompatible({
    name: 'lathe',
    baseURL: `${url}/v1`,
    apiKey: key,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });

export const aiSdkLibraries: readonly Library[] = [
  aiSdk({
    name: 'openai responses',
    wire: 'responses',
    model: (place, id) => openai(place)(id),
    embedding: (place) => openai(place).embeddingModel(place.embeddings),
  }),
  aiSdk({ name: 'openai chat', wire: 'chat', model: (place, id) => openai(place).chat(id) }),
  aiSdk({
    name: 'openai-compatible',
    wire: 'chat',
    model: (place, id) => compatible(place)(id),
    embedding: (place) => compatible(place).embeddingModel(place.embeddings),
  }),
];
