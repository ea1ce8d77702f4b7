import { Ollama } from 'ollama';
import { expect } from 'vitest';
import {
  answerOf,
  type Client,
  checkFreed,
  checkPerson,
  checkWeatherCall,
  gap,
  person,
  personQuestion,
  type Places,
  png,
  question,
  weather,
  weatherAnswer,
  weatherQuestion,
  weatherResult,
} from './features.ts';

const model = 'lathe-tiny';
const clientOf = (url: string) => new Ollama({ host: url });
const options = { temperature: 0, repeat_penalty: 1 };
const ask = (content: string) => ({ model, options, messages: [{ role: 'user', content }] });
const tools = [{ type: 'function', function: weather }];

async function leave(places: Places, begin: (client: Ollama) => Promise<AsyncIterable<unknown>>) {
  await checkFreed(places, async () => {
    const client = clientOf(places.url);
    const read = async () => {
      for await (const _ of await begin(client)) client.abort();
    };
    await expect(read()).rejects.toThrow(/abort/i);
  });
}

export const ollamaChat: Client = {
  name: 'ollama chat',
  checks: {
    async buffered({ url }) {
      const answer = await clientOf(url).chat(ask(question));
      expect(answer.message.content).toMatch(answerOf);
      expect(answer).toMatchObject({ done: true, done_reason: 'stop' });
    },
    async streamed({ url }) {
      const request = {
        ...ask('Tell me a story about an owl named Mia.'),
        options: { seed: 7, num_predict: 60 },
      };
      const whole = await clientOf(url).chat(request);
      let text = '';
      for await (const part of await clientOf(url).chat({ ...request, stream: true }))
        text += part.message.content;
      expect(text).toBe(whole.message.content);
    },
    async usage({ url }) {
      const whole = await clientOf(url).chat(ask(question));
      let last;
      for await (const part of await clientOf(url).chat({ ...ask(question), stream: true })) last = part;
      expect(last?.eval_count).toBe(whole.eval_count);
      expect(whole.eval_count).toBeGreaterThan(3);
      expect(Number.isInteger(last?.total_duration) && (last?.total_duration ?? 0) > 100_000).toBe(true);
    },
    async tool({ url }) {
      const { message } = await clientOf(url).chat({ ...ask(weatherQuestion), tools });
      const call = message.tool_calls?.[0]?.function;
      checkWeatherCall(call?.name, call?.arguments);
    },
    async toolStreamed({ url }) {
      let call;
      for await (const part of await clientOf(url).chat({ ...ask(weatherQuestion), tools, stream: true })) {
        call ??= part.message.tool_calls?.[0]?.function;
      }
      checkWeatherCall(call?.name, call?.arguments);
    },
    async toolLoop({ url }) {
      const { message } = await clientOf(url).chat({ ...ask(weatherQuestion), tools });
      const result = { role: 'tool', tool_name: weather.name, content: weatherResult };
      const messages = [...ask(weatherQuestion).messages, message, result];
      const second = await clientOf(url).chat({ ...ask(''), messages, tools });
      expect(second.message.content).toMatch(weatherAnswer);
    },
    async schema({ url }) {
      const { message } = await clientOf(url).chat({ ...ask(personQuestion), format: person });
      checkPerson(message.content);
    },
    async stop({ url }) {
      const { message } = await clientOf(url).chat({
        ...ask(question),
        options: { ...options, stop: ['Rome'] },
      });
      expect(message.content).not.toContain('Rome');
    },
    async logprobs({ url }) {
      const answer = await clientOf(url).chat({ ...ask(question), logprobs: true, top_logprobs: 2 });
      expect(answer.logprobs?.map(({ token }) => token).join('')).toBe(answer.message.content);
      expect(answer.logprobs?.every(({ top_logprobs }) => top_logprobs?.length === 2)).toBe(true);
    },
    async models({ url }) {
      const { models } = await clientOf(url).list();
      expect(models.map(({ name }) => name)).toContain(`${model}:latest`);
      expect((await clientOf(url).show({ model })).capabilities).toContain('tools');
      expect((await clientOf(url).ps()).models).toHaveLength(1);
    },
    abort: (places) =>
      leave(places, (client) =>
        client.chat({
          ...ask('Tell me a story about an owl named Mia.'),
          options: { temperature: 1.9 },
          stream: true,
        }),
      ),
    async image({ url }) {
      const messages = [{ role: 'user', content: 'What is this?', images: [png] }];
      await expect(clientOf(url).chat({ model, messages })).rejects.toThrow(/image/);
    },
    async unknown({ url }) {
      await expect(clientOf(url).chat({ ...ask('hi'), model: 'gpt-9' })).rejects.toMatchObject({
        name: 'ResponseError',
        status_code: 404,
      });
    },
    async invalid({ url }) {
      const wrong = { temperature: -9, top_p: 7 };
      await expect(clientOf(url).chat({ ...ask('hi'), options: wrong })).rejects.toThrow(
        /temperature[\s\S]*top_p|top_p[\s\S]*temperature/,
      );
    },
  },
};

export const ollamaGenerate: Client = {
  name: 'ollama generate',
  checks: {
    async buffered({ url }) {
      const answer = await clientOf(url).generate({ model, prompt: question, options });
      expect(answer.response).toMatch(answerOf);
    },
    async streamed({ url }) {
      const request = { model, prompt: question, options };
      const whole = await clientOf(url).generate(request);
      let text = '';
      for await (const part of await clientOf(url).generate({ ...request, stream: true }))
        text += part.response;
      expect(text).toBe(whole.response);
    },
    async usage({ url }) {
      const answer = await clientOf(url).generate({ model, prompt: question, options });
      expect(answer.prompt_eval_count).toBeGreaterThan(5);
      expect(answer.context.length).toBeGreaterThan(answer.eval_count);
    },
    async schema({ url }) {
      const answer = await clientOf(url).generate({ model, prompt: personQuestion, options, format: person });
      checkPerson(answer.response ?? '');
    },
    async stop({ url }) {
      const request = { model, prompt: question, options: { ...options, stop: ['Rome'] } };
      expect((await clientOf(url).generate(request)).response).not.toContain('Rome');
    },
    async middle({ url }) {
      const request = { model, prompt: gap.before, suffix: gap.after, options };
      expect((await clientOf(url).generate(request)).response).toBe(gap.middle);
    },
    async embeddings({ embedder }) {
      const client = clientOf(embedder);
      const name = (await client.list()).models[0]?.name ?? '';
      const { embeddings } = await client.embed({ model: name, input: ['a b', 'c'] });
      expect(embeddings).toHaveLength(2);
      expect(Math.hypot(...(embeddings[0] ?? []))).toBeCloseTo(1, 4);
      expect((await client.embeddings({ model: name, prompt: 'a b' })).embedding).toHaveLength(
        embeddings[0]?.length ?? 0,
      );
    },
    abort: (places) =>
      leave(places, (client) =>
        client.generate({ model, prompt: 'Once', raw: true, stream: true, options: { temperature: 1.9 } }),
      ),
    async image({ url }) {
      const request = { model, prompt: 'What is this?', images: [png] };
      await expect(clientOf(url).generate(request)).rejects.toThrow(/image/);
    },
    async unknown({ url }) {
      await expect(clientOf(url).generate({ model: 'gpt-9', prompt: 'hi' })).rejects.toMatchObject({
        status_code: 404,
      });
    },
    async invalid({ url }) {
      const request = { model, prompt: 'hi', options: { temperature: -9, top_p: 7 } };
      await expect(clientOf(url).generate(request)).rejects.toThrow(
        /temperature[\s\S]*top_p|top_p[\s\S]*temperature/,
      );
    },
  },
};
