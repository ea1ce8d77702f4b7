import { tool } from '@llamaindex/core/tools';
import type { ToolCallLLM } from '@llamaindex/core/llms';
import { OpenAI, OpenAIEmbedding, OpenAIResponses } from '@llamaindex/openai';
import { agent, agentStreamEvent } from '@llamaindex/workflow';
import { expect } from 'vitest';
import { z } from 'zod';
import type { Library } from './checks.ts';
import {
  answer,
  introduction,
  nameAnswer,
  nameQuestion,
  person,
  personQuestion,
  question,
  twoCitiesAnswer,
  twoCitiesQuestion,
  weatherAnswer,
  weatherQuestion,
  weatherResult,
  weatherTool,
} from './conversation.ts';
import type { Place } from './places.ts';

interface Usage {
  readonly total_tokens: number;
}

interface Changes {
  readonly model?: string;
  readonly key?: string;
}

const personSchema = z.object({ name: z.string(), age: z.number() });
/** The class for responses repeats the last piece of text with every later event. */
const isTextDelta = (raw: unknown) => (raw as { type?: string }).type === 'response.output_text.delta';
function totalOf(raw: unknown): number | undefined {
  const { usage, response } = raw as { usage?: Usage | null; response?: { usage?: Usage | null } };
  return (usage ?? response?.usage)?.total_tokens;
}
const ask = (content: string) => ({ messages: [{ role: 'user' as const, content }] });

/** It does not close a stream that its reader leaves, so there is no abort. */
function llamaIndex(
  wire: 'chat' | 'responses',
  create: (place: Place, changes?: Changes) => ToolCallLLM,
): Library {
  const weather = (cities: string[]) =>
    tool({
      name: weatherTool,
      description: 'The weather in a city.',
      parameters: z.object({ city: z.string() }),
      execute({ city }) {
        cities.push(city);
        return city === 'Rome' ? weatherResult : `${weatherResult} in ${city}`;
      },
    });
  const textOf = (text: string) => (wire === 'chat' ? text : (expect.stringMatching(`^${text}`) as string));
  return {
    name: `LlamaIndex, ${wire}`,
    places: ['host', 'gateway'],
    hostOnly: ['stored'],
    checks: {
      async buffered(place) {
        expect((await create(place).chat(ask(question))).message.content).toBe(answer);
      },
      async streamed(place) {
        const pieces: string[] = [];
        for await (const { delta, raw } of await create(place).chat({ ...ask(question), stream: true }))
          if (wire === 'chat' || isTextDelta(raw)) pieces.push(delta);
        expect(pieces.join('')).toBe(answer);
        expect(pieces.length).toBeGreaterThan(3);
      },
      async usage(place) {
        const { raw } = await create(place).chat(ask(question));
        const additionalChatOptions = wire === 'chat' ? { stream_options: { include_usage: true } } : {};
        const request = { ...ask(question), additionalChatOptions, stream: true as const };
        const totals: number[] = [];
        for await (const chunk of await create(place).chat(request)) {
          const total = totalOf(chunk.raw);
          if (total !== undefined) totals.push(total);
        }
        expect(totals).toEqual([totalOf(raw)]);
        expect(totals[0]).toBeGreaterThan(3);
      },
      async tool(place) {
        const cities: string[] = [];
        const { data } = await agent({ llm: create(place), tools: [weather(cities)] }).run(weatherQuestion);
        expect(cities).toEqual(['Rome']);
        expect(data.result).toEqual(textOf(weatherAnswer));
      },
      async toolStreamed(place) {
        const cities: string[] = [];
        const events = agent({ llm: create(place), tools: [weather(cities)] }).runStream(weatherQuestion);
        let text = '';
        for await (const event of events) if (agentStreamEvent.include(event)) text += event.data.delta;
        expect(cities).toEqual(['Rome']);
        expect(text).toEqual(textOf(weatherAnswer));
      },
      async parallel(place) {
        const cities: string[] = [];
        const { data } = await agent({ llm: create(place), tools: [weather(cities)] }).run(twoCitiesQuestion);
        expect(cities.toSorted()).toEqual(['Oslo', 'Rome']);
        expect(data.result).toEqual(textOf(twoCitiesAnswer));
      },
      async schema(place) {
        const response = await create(place).chat({ ...ask(personQuestion), responseFormat: personSchema });
        expect(response.message.content).toBe(JSON.stringify(person));
      },
      ...(wire === 'responses' && {
        async stored({ url, key, responses: model }: Place) {
          const options = { model, apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 };
          const llm = new OpenAIResponses({ ...options, store: true, trackPreviousResponses: true });
          for await (const _ of await llm.chat({ ...ask(introduction), stream: true }));
          expect((await llm.chat(ask(nameQuestion))).message.content).toBe(nameAnswer);
        },
      }),
      ...(wire === 'chat' && {
        async embeddings({ url, key, embeddings: model }: Place) {
          const embedding = new OpenAIEmbedding({ model, apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
          const vectors = await embedding.getTextEmbeddings(['a', 'b']);
          expect(vectors).toHaveLength(2);
          for (const vector of vectors) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
        },
      }),
      async unknown(place) {
        const answered = create(place, { model: 'gpt-9' }).chat(ask(question));
        await expect(answered).rejects.toMatchObject({ status: 404 });
      },
      async badKey(place) {
        const answered = create(place, { key: 'wrong-key' }).chat(ask(question));
        await expect(answered).rejects.toMatchObject({ status: 401 });
      },
    },
  };
}

export const llamaIndexLibraries: readonly Library[] = [
  llamaIndex(
    'chat',
    (place, { model = place.chat, key = place.key } = {}) =>
      new OpenAI({ model, apiKey: key, baseURL: `${place.url}/v1`, maxRetries: 0 }),
  ),
  llamaIndex(
    'responses',
    (place, { model = place.responses, key = place.key } = {}) =>
      new OpenAIResponses({ model, apiKey: key, baseURL: `${place.url}/v1`, maxRetries: 0 }),
  ),
];
