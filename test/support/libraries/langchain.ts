import { ChatAnthropic } from '@langchain/anthropic';
import type { EmbeddingsInterface } from '@langchain/core/embeddings';
import type { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { type AIMessageChunk, HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOllama, OllamaEmbeddings } from '@langchain/ollama';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { expect } from 'vitest';
import { z } from 'zod';
import { checkAbandoned, type Library } from './checks.ts';
import {
  answer,
  introduction,
  nameAnswer,
  nameQuestion,
  person,
  personCallQuestion,
  personName,
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

/** What a test changes of a place. */
interface Changes {
  readonly model?: string;
  readonly key?: string;
}

type ToolModel = BaseChatModel & Required<Pick<BaseChatModel, 'bindTools'>>;

const personSchema = z.object({ name: z.string(), age: z.number().int() });
const weather = tool(({ city }) => (city === 'Rome' ? weatherResult : `${weatherResult} in ${city}`), {
  name: weatherTool,
  description: 'The weather in a city.',
  schema: z.object({ city: z.string() }),
});

function usageOf({ usage_metadata: usage }: AIMessageChunk) {
  if (usage === undefined) throw new Error('no token counts');
  const { input_tokens, output_tokens, total_tokens } = usage;
  return { input_tokens, output_tokens, total_tokens };
}

async function gather(stream: AsyncIterable<AIMessageChunk>) {
  const chunks: AIMessageChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  const [first, ...rest] = chunks;
  if (first === undefined) throw new Error('an empty stream');
  return { count: chunks.length, whole: rest.reduce((sum, chunk) => sum.concat(chunk), first) };
}

/** Asks, runs the calls of the answer, and asks again with their results. */
async function converse(model: ToolModel, asked: string, streams: boolean) {
  const bound = model.bindTools([weather]);
  const messages: Parameters<typeof bound.invoke>[0] & object[] = [new HumanMessage(asked)];
  const ask = async () =>
    streams
      ? (await gather((await bound.stream(messages)) as AsyncIterable<AIMessageChunk>)).whole
      : bound.invoke(messages);
  const first = await ask();
  messages.push(first);
  for (const call of first.tool_calls ?? [])
    messages.push(await weather.invoke({ ...call, type: 'tool_call' }));
  return { calls: first.tool_calls ?? [], text: (await ask()).text };
}

interface Setup extends Pick<Library, 'name' | 'places' | 'hostOnly'> {
  readonly create: (place: Place, changes?: Changes) => ToolModel;
  readonly embed?: (place: Place) => EmbeddingsInterface;
  readonly stored?: (place: Place) => Promise<void>;
  /** Default: those of OpenAI's and Anthropic's clients. */
  readonly errors?: { readonly unknown: object; readonly badKey: object };
}

const httpErrors = { unknown: { status: 404 }, badKey: { status: 401 } };

const langchain = ({ create, embed, stored, errors = httpErrors, ...library }: Setup): Library => ({
  ...library,
  checks: {
    async buffered(place) {
      expect((await create(place).invoke(question)).text).toBe(answer);
    },
    async streamed(place) {
      const { count, whole } = await gather(
        (await create(place).stream(question)) as AsyncIterable<AIMessageChunk>,
      );
      expect(whole.text).toBe(answer);
      expect(count).toBeGreaterThan(3);
    },
    async usage(place) {
      const usage = usageOf(await create(place).invoke(question));
      const { whole } = await gather(await create(place).stream(question));
      expect(usageOf(whole)).toEqual(usage);
      expect(usage.output_tokens).toBeGreaterThan(3);
      expect(usage.total_tokens).toBe(usage.input_tokens + usage.output_tokens);
    },
    async tool(place) {
      const { calls, text } = await converse(create(place), weatherQuestion, false);
      expect(calls).toMatchObject([{ name: weatherTool, args: { city: 'Rome' } }]);
      expect(text).toBe(weatherAnswer);
    },
    async toolStreamed(place) {
      const { calls, text } = await converse(create(place), weatherQuestion, true);
      expect(calls).toMatchObject([{ name: weatherTool, args: { city: 'Rome' } }]);
      expect(text).toBe(weatherAnswer);
    },
    async parallel(place) {
      for (const streams of [false, true]) {
        const { calls, text } = await converse(create(place), twoCitiesQuestion, streams);
        expect(calls.map(({ args }) => args['city'])).toEqual(['Rome', 'Oslo']);
        expect(text).toBe(twoCitiesAnswer);
      }
    },
    async schema(place) {
      const bound = create(place).withStructuredOutput(personSchema, {
        name: personName,
        method: 'jsonSchema',
      });
      expect(await bound.invoke(personQuestion)).toEqual(person);
    },
    async schemaCall(place) {
      const options = { name: personName, method: 'functionCalling' } as const;
      expect(
        await create(place).withStructuredOutput(personSchema, options).invoke(personCallQuestion),
      ).toEqual(person);
    },
    ...(stored && { stored }),
    ...(embed && {
      async embeddings(place: Place) {
        const vectors = await embed(place).embedDocuments(['a', 'b']);
        expect(vectors).toHaveLength(2);
        for (const vector of vectors) expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
      },
    }),
    async unknown(place) {
      await expect(create(place, { model: 'gpt-9' }).invoke(question)).rejects.toMatchObject(errors.unknown);
    },
    async badKey(place) {
      await expect(create(place, { key: 'wrong-key' }).invoke(question)).rejects.toMatchObject(errors.badKey);
    },
    abort: (place) =>
      checkAbandoned(place, async () => {
        const leaving = new AbortController();
        const stream = await create(place).stream(storyQuestion, { signal: leaving.signal });
        const read = async () => {
          for await (const _ of stream) leaving.abort();
        };
        await read().catch(() => undefined);
      }),
  },
});

const openai = (useResponsesApi: boolean) => ({
  create: (place: Place, { model, key }: Changes = {}) =>
    new ChatOpenAI({
      model: model ?? (useResponsesApi ? place.responses : place.chat),
      apiKey: key ?? place.key,
      maxRetries: 0,
      useResponsesApi,
      configuration: { baseURL: `${place.url}/v1` },
    }),
  embed: (place: Place) =>
    new OpenAIEmbeddings({
      model: place.embeddings,
      apiKey: place.key,
      maxRetries: 0,
      configuration: { baseURL: `${place.url}/v1` },
    }),
});

export const langchainLibraries: readonly Library[] = [
  langchain({ name: 'LangChain, chat', places: ['host', 'gateway'], ...openai(false) }),
  langchain({
    name: 'LangChain, responses',
    places: ['host', 'gateway'],
    hostOnly: ['stored'],
    create: openai(true).create,
    async stored(place) {
      const model = openai(true).create(place);
      const { id = '' } = await model.invoke(introduction);
      expect(id).toMatch(/^resp_/);
      expect((await model.invoke(nameQuestion, { previous_response_id: id })).text).toBe(nameAnswer);
    },
  }),
  langchain({
    name: 'LangChain, Anthropic',
    places: ['host', 'gateway'],
    // It adds the token that Anthropic counts at the start of a stream.
    hostOnly: ['usage'],
    create: (place, { model = place.messages, key = place.key } = {}) =>
      new ChatAnthropic({ model, apiKey: key, maxRetries: 0, maxTokens: 2000, anthropicApiUrl: place.url }),
  }),
  langchain({
    name: 'LangChain, Ollama',
    places: ['host'],
    create: (place, { model = place.chat, key = place.key } = {}) =>
      new ChatOllama({
        model,
        baseUrl: place.url,
        headers: { authorization: `Bearer ${key}` },
        maxRetries: 0,
      }),
    embed: (place) =>
      new OllamaEmbeddings({
        model: place.embeddings,
        baseUrl: place.url,
        headers: { authorization: `Bearer ${place.key}` },
        maxRetries: 0,
      }),
    errors: { unknown: { status_code: 404 }, badKey: { status_code: 401 } },
  }),
];
