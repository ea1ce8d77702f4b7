import { expect } from 'vitest';
import { z } from 'zod';
import { completionAnswer } from '../../../src/wires/llama-cpp/answer-schema.ts';
import { llamaError } from '../../../src/wires/llama-cpp/error.ts';
import { until } from '../until.ts';
import { json, other, row, type Row } from './row.ts';

/** The properties of the server, and its own completions. */
export const completionRows: readonly Row[] = [
  row(
    'basic',
    'health, properties, models and slots agree on model, slots and context',
    async ({ serve }) => {
      const { get } = await serve({ capacity: 2, contextLength: 512 });
      const read = async (path: string): Promise<unknown> => (await get(path)).json();
      expect(await read('/health')).toMatchObject({ status: 'ok' });
      const settings = { n_ctx: 512, params: { seed: -1 } };
      expect(await read('/props')).toMatchObject({ total_slots: 2, default_generation_settings: settings });
      expect(await read('/models')).toMatchObject({ data: [{ id: 'scripted' }] });
      const slots = z.array(json).parse(await read('/slots'));
      expect(slots).toMatchObject([{ n_ctx: 512 }, { n_ctx: 512 }]);
      expect(slots.some((slot) => 'params' in slot)).toBe(false);
    },
  ),
  other(
    'basic',
    'options: `--no-slots`, `--no-webui`, aliases with tags',
    'other options (serving.md); a model has one id',
  ),
  row(
    'completion',
    'token counts in `timings`, `truncated`, `has_new_line`; `tokens` on request',
    async ({ completionOf }) => {
      const request = { prompt: 'a long life', n_predict: 3 };
      const answer = await completionOf(request);
      expect(answer).toMatchObject({ truncated: false, has_new_line: false, tokens: [], stop_type: 'limit' });
      expect(answer.timings).toMatchObject({ prompt_n: 11, predicted_n: 3 });
      expect((await completionOf({ ...request, return_tokens: true })).tokens).toEqual([0, 1, 2]);
    },
  ),
  row(
    'completion',
    'a stream has the same text; each part says `stop`, the last one has the settings',
    async ({ completionOf, streamOf }) => {
      const request = { prompt: 'a', n_predict: 3, seed: 42 };
      const events = await streamOf('/completion', request);
      const last = events.at(-1);
      expect(events.map(({ stop }) => stop)).toEqual([false, false, false, true]);
      for (const { tokens } of events.slice(0, -1)) expect(z.array(z.int()).parse(tokens)).toHaveLength(1);
      expect(last).toMatchObject({
        stop_type: 'limit',
        truncated: false,
        generation_settings: { n_predict: 3, seed: 42 },
        timings: { prompt_n: 1, predicted_n: 3 },
      });
      const text = events.map(({ content }) => content).join('');
      expect(text).toBe((await completionOf(request)).content);
    },
  ),
  row('completion', "OpenAI's client completes and streams", async ({ clientAt }) => {
    const openai = await clientAt();
    const request = { model: 'scripted', prompt: 'a', max_tokens: 3 };
    const whole = await openai.completions.create(request);
    expect(whole.choices[0]).toMatchObject({ finish_reason: 'length', text: 'Hello, world' });
    expect(whole.system_fingerprint).toMatch(/./);
    let text = '';
    for await (const { choices } of await openai.completions.create({ ...request, stream: true }))
      text += choices[0]?.text ?? '';
    expect(text).toBe('Hello, world');
  }),
  row(
    'completion',
    'a prompt of token ids, several, and texts and ids in one',
    async ({ ask, completionOf }) => {
      const { body } = await ask('/tokenize', { content: 'life', add_special: true }, { bosId: 256 });
      const { tokens } = z.object({ tokens: z.array(z.int()) }).parse(body);
      expect((await completionOf({ prompt: tokens }, { bosId: 256 })).timings?.prompt_n).toBe(5);
      for (const prompt of [
        [tokens, tokens],
        [tokens, 'life'],
      ]) {
        const answered = await ask('/completion', { prompt }, { bosId: 256 });
        const answers = z.array(completionAnswer).parse(answered.body);
        expect(answers.map((answer) => answer.timings?.prompt_n)).toEqual([5, 5]);
      }
      expect((await completionOf({ prompt: [1, 2, 'ab', 3, 'c'] })).timings?.prompt_n).toBe(6);
    },
  ),
  row('completion', 'a prompt that is too long is refused, also without the cache', async ({ ask }) => {
    const long = { prompt: 'life'.repeat(100), cache_prompt: false };
    const { status, body } = await ask('/completion', long, { contextLength: 300 });
    expect(status).toBe(400);
    expect(llamaError.parse(body).error).toMatchObject({
      type: 'exceed_context_size_error',
      n_ctx: 300,
      n_prompt_tokens: 400,
    });
  }),
  row('completion', 'requests beyond the slots wait; `/slots` shows the busy ones', async ({ serve }) => {
    const held = Promise.withResolvers<void>();
    const { get, post, engine } = await serve({ hold: () => held.promise });
    const answers = ['a', 'b', 'c'].map((prompt) => post('/completion', { prompt }));
    await until(() => engine.running === 3);
    const busy = z.array(json).parse(await (await get('/slots')).json());
    expect(busy.filter((slot) => slot['is_processing'])).toHaveLength(3);
    held.resolve();
    for (const answer of answers) expect((await answer).status).toBe(200);
  }),
  row(
    'completion',
    '`response_fields` selects members, an empty list none',
    async ({ ask, completionOf }) => {
      const fields = ['content', 'generation_settings/n_predict', 'prompt'];
      const { body } = await ask('/completion', { prompt: 'ab', n_predict: 2, response_fields: fields });
      expect(body).toEqual({ content: 'Hello, ', 'generation_settings/n_predict': 2, prompt: 'ab' });
      expect(await completionOf({ prompt: 'ab', response_fields: [] })).toHaveProperty('generation_settings');
    },
  ),
  row(
    'completion',
    '`n_probs`: log probabilities, streamed one token at a time; probabilities after sampling',
    async ({ completionOf, streamOf }) => {
      const request = { prompt: 'a', n_probs: 2, temperature: 0 };
      const script = { answer: () => ['b', 'c'] };
      const entry = {
        id: 98,
        token: 'b',
        bytes: [98],
        logprob: expect.any(Number) as number,
        top_logprobs: [{ token: 'a' }, { token: 'b' }],
      };
      const { completion_probabilities: probabilities } = await completionOf(request, script);
      expect(probabilities).toHaveLength(2);
      expect(probabilities?.[0]).toMatchObject(entry);
      const events = await streamOf('/completion', request, script);
      for (const event of events.slice(0, -1))
        expect(z.array(json).parse(event['completion_probabilities'])).toHaveLength(1);
      const sampled = await completionOf({ ...request, post_sampling_probs: true }, script);
      expect(sampled.completion_probabilities?.[0]).toMatchObject({
        token: 'b',
        prob: 0.5,
        top_probs: [{ token: 'a' }],
      });
    },
  ),
  row('completion', '`logit_bias` as pairs and as an object, of ids and of texts', async ({ serve }) => {
    const { post, engine } = await serve();
    for (const logit_bias of [[[97, -100]], [['a', -100]], { 97: -100 }, { a: -100 }])
      expect((await post('/completion', { prompt: 'x', logit_bias })).status).toBe(200);
    expect(engine.requests.map(({ sampling }) => [...sampling.logitBias])).toEqual(
      Array.from({ length: 4 }, () => [[97, -100]]),
    );
  }),
  row('completion', 'a request whose client leaves frees its slot', async ({ serve }) => {
    const { post, engine, get } = await serve({ delayMs: 1, answer: () => Array<string>(500).fill('x') });
    const leaving = new AbortController();
    const answered = post('/completion', { prompt: 'a' }, { signal: leaving.signal });
    await until(() => engine.running === 1);
    leaving.abort();
    await expect(answered).rejects.toThrow();
    await until(() => engine.aborted === 1);
    expect(await (await get('/slots')).text()).not.toContain('true');
  }),
  other(
    'completion',
    'the same seed gives the same text, others other texts; batches and slots do not matter',
    'with the embedded model: table above, `llama-cpp-host.test.ts`',
  ),
  other(
    'completion',
    'the name of the model is ignored',
    'another name than that of the model is refused (404)',
  ),
];
