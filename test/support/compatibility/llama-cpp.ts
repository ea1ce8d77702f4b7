import { expect } from 'vitest';
import {
  type Client,
  checkFreed,
  checkPerson,
  gap,
  person,
  personQuestion,
  type Places,
  question,
  stopWord,
  answerOf,
} from './features.ts';

const post = async (url: string, path: string, body: unknown, init: RequestInit = {}) =>
  await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...init,
  });
type Final = Record<string, unknown> & { content: string; stop: boolean; error?: { code: number } };
const call = async (url: string, path: string, body: unknown) =>
  (await (await post(url, path, body)).json()) as Final;
const prompted = async ({ url }: Places, content: string) =>
  (await call(url, '/apply-template', { messages: [{ role: 'user', content }] }))['prompt'] as string;

/** There is no published client of this wire for Node, so the requests are written by hand. */
export const llamaCpp: Client = {
  name: 'llama.cpp wire',
  checks: {
    async buffered(places) {
      const prompt = await prompted(places, question);
      const answer = await call(places.url, '/completion', { prompt, temperature: 0 });
      expect(answer.content).toMatch(answerOf);
      expect(answer).toMatchObject({ stop: true, stop_type: 'eos' });
    },
    async streamed(places) {
      const request = { prompt: 'Once upon', n_predict: 20, seed: 5 };
      const whole = await call(places.url, '/completion', request);
      const text = await (await post(places.url, '/completion', { ...request, stream: true })).text();
      const events = text
        .split('\n\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line.replace(/^data: /, '')) as Final);
      expect(events.map(({ content }) => content).join('')).toBe(whole.content);
      expect(events.at(-1)).toMatchObject({ stop: true, content: '' });
    },
    async usage({ url }) {
      const answer = await call(url, '/completion', {
        prompt: 'In a house near the kitchen lived Mia, an owl.',
        n_predict: 8,
        temperature: 0,
      });
      expect(answer).toMatchObject({ tokens_predicted: 8, stop_type: 'limit' });
      expect((answer['timings'] as { predicted_n: number }).predicted_n).toBe(8);
    },
    async embeddings({ embedder }) {
      const response = await post(embedder, '/embedding', { content: ['a b', 'c'] });
      const vectors = (await response.json()) as { embedding: number[][] }[];
      expect(vectors).toHaveLength(2);
      expect(Math.hypot(...(vectors[0]?.embedding[0] ?? []))).toBeCloseTo(1, 4);
    },
    async schema(places) {
      const prompt = await prompted(places, personQuestion);
      const answer = await call(places.url, '/completion', { prompt, temperature: 0, json_schema: person });
      checkPerson(answer.content);
    },
    async stop(places) {
      const prompt = await prompted(places, question);
      const answer = await call(places.url, '/completion', { prompt, temperature: 0, stop: [stopWord] });
      expect(answer).toMatchObject({ stop_type: 'word', stopping_word: stopWord });
    },
    async logprobs({ url }) {
      const answer = await call(url, '/completion', {
        prompt: 'In a house near the kitchen lived',
        n_predict: 3,
        n_probs: 2,
      });
      const tokens = answer['completion_probabilities'] as { logprob: number; top_logprobs: unknown[] }[];
      expect(tokens).toHaveLength(3);
      expect(tokens[0]?.top_logprobs).toHaveLength(2);
    },
    async middle({ url }) {
      const request = { input_prefix: gap.before, input_suffix: gap.after, temperature: 0 };
      expect((await call(url, '/infill', { ...request, n_predict: 12 })).content).toBe(gap.middle);
    },
    async models({ url }) {
      const props = (await (await fetch(`${url}/props`)).json()) as { chat_template: string };
      expect(props.chat_template).toContain('tool_call');
    },
    abort: (places) =>
      checkFreed(places, async () => {
        const controller = new AbortController();
        const request = { prompt: 'Once', n_predict: 900, ignore_eos: true, stream: true };
        const response = await post(places.url, '/completion', request, { signal: controller.signal });
        await response.body?.getReader().read();
        controller.abort();
      }),
    async image({ url }) {
      const image_data = [{ data: 'AAAA', id: 1 }];
      const answer = await call(url, '/completion', { prompt: 'What is [img-1]?', image_data });
      expect(answer.error).toMatchObject({ message: expect.stringMatching(/image/) as string });
    },
    async invalid({ url }) {
      const response = await post(url, '/completion', { prompt: 'hi', temperature: -9, top_p: 7 });
      expect(response.status).toBe(400);
      const { error } = (await response.json()) as Final;
      expect(error).toMatchObject({ code: 400, type: 'invalid_request_error' });
      expect(JSON.stringify(error)).toMatch(/temperature.*top_p|top_p.*temperature/);
    },
  },
};
