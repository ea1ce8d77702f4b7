import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { completionAnswer } from '../../src/wires/llama-cpp/answer-schema.ts';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';
import { readEvents } from '../support/serve.ts';

let host: HostProcess;
let url: string;
beforeAll(async () => {
  buildHost();
  host = startHost(['--gpu', '--port', '0']);
  url = await host.url();
});
afterAll(() => host?.end());

const post = (path: string, body: object) =>
  fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
const ask = async (path: string, body: object) => {
  const response = await post(path, body);
  const text = await response.text();
  expect([response.status, text]).toEqual([200, text]);
  return completionAnswer.strict().parse(JSON.parse(text));
};

describe('POST /infill on the embedded model', () => {
  test.each([
    ['left', 'function addItem(left: number, right: number): number {\n  return left + ', ';\n}\n', 'right'],
    ['total', 'const total = 42;\nconst size = ', ' * 3;\nconsole.log(size);\n', 'total'],
    ['name', 'function openFile(name: string): string {\n  return "moon " + ', ';\n}\n', 'name'],
  ])('fills in the middle: %s', async (middle, input_prefix, input_suffix, other) => {
    const body = { input_prefix, input_suffix, temperature: 0, n_predict: 32 };
    const answer = await ask('/infill', body);
    expect([middle, other]).toContain(answer.content);
    expect(answer).toMatchObject({ stop_type: 'eos', truncated: false, has_new_line: false });
    expect(answer.prompt).toContain(`${input_prefix}<|fim_suffix|>${input_suffix}<|fim_middle|>`);
    expect(answer.tokens_evaluated).toBe(answer.timings.prompt_n + (answer.timings.cache_n ?? 0));
    const events = (await readEvents(await post('/infill', { ...body, stream: true }))).map(
      (line) => JSON.parse(line) as { content: string; stop: boolean },
    );
    expect(events.map(({ content }) => content).join('')).toBe(answer.content);
    expect(events.at(-1)).toMatchObject({ stop: true, content: '' });
  });

  test('as an editor sends it, with files around and a text that does not fit', async () => {
    const answer = await ask('/infill', {
      input_prefix: `${'const unused = 1;\n'.repeat(500)}const total = 42;\nconst size = `,
      input_suffix: ` * 3;\nconsole.log(size);\n${'// more\n'.repeat(500)}`,
      input_extra: [{ filename: 'other.ts', text: 'export const other = 7;\n' }],
      prompt: '',
      n_predict: 16,
      n_indent: 0,
      top_k: 40,
      top_p: 0.9,
      samplers: ['top_k', 'top_p', 'infill'],
      t_max_prompt_ms: 500,
      t_max_predict_ms: 5000,
      cache_prompt: true,
      stream: false,
    });
    expect(answer.generation_settings).toMatchObject({ temperature: 0, samplers: ['top_k', 'top_p'] });
    expect(answer.tokens_evaluated).toBeLessThanOrEqual(1024 - 16);
    expect(answer.tokens_evaluated).toBeGreaterThan(900);
  });
});

describe('POST /completion on the embedded model', () => {
  const question = async (content: string) =>
    (
      (await (await post('/apply-template', { messages: [{ role: 'user', content }] })).json()) as {
        prompt: string;
      }
    ).prompt;

  test('a question through /apply-template', async () => {
    const prompt = await question('What is the capital of Italy?');
    const answer = await ask('/completion', { prompt, temperature: 0, return_tokens: true });
    expect(answer).toMatchObject({ content: 'The capital of Italy is Rome.', stop_type: 'eos' });
    const { content } = (await (await post('/detokenize', { tokens: answer.tokens })).json()) as {
      content: string;
    };
    expect(content.replace('<|im_end|>', '')).toBe(answer.content);
    const again = await ask('/completion', { prompt, temperature: 0, stop: [' is'] });
    expect(again).toMatchObject({ content: 'The capital of Italy', stop_type: 'word', stopping_word: ' is' });
    expect(again.tokens_cached).toBe(again.timings.cache_n);
  });

  test('log probabilities are in descending order, and the greedy token is the most likely', async () => {
    const answer = await ask('/completion', {
      prompt: 'Once upon',
      temperature: 0,
      n_predict: 4,
      n_probs: 3,
    });
    expect(answer.completion_probabilities).toHaveLength(4);
    for (const entry of answer.completion_probabilities ?? []) {
      if (!('logprob' in entry)) throw new Error('no log probability');
      const { id, logprob, top_logprobs } = entry;
      expect(top_logprobs).toHaveLength(3);
      expect(top_logprobs[0]?.id).toBe(id);
      expect(logprob).toBeLessThanOrEqual(0);
      expect(top_logprobs.map((one) => one.logprob)).toEqual(
        top_logprobs.map((one) => one.logprob).toSorted((a, b) => b - a),
      );
    }
  });

  test('probabilities after sampling cover the remaining tokens and sum to one', async () => {
    const request = {
      prompt: 'Once upon',
      temperature: 1.5,
      top_k: 3,
      top_p: 1,
      min_p: 0,
      n_predict: 6,
      seed: 4,
    };
    const raw = await ask('/completion', { ...request, n_probs: 3 });
    const answer = await ask('/completion', { ...request, n_probs: 5, post_sampling_probs: true });
    expect(answer.content).toBe(raw.content);
    expect(answer.completion_probabilities).toHaveLength(6);
    for (const [index, one] of (answer.completion_probabilities ?? []).entries()) {
      const before = raw.completion_probabilities?.[index];
      if (!('prob' in one) || !before || !('logprob' in before)) throw new Error('not as asked');
      const weights = before.top_logprobs.map(({ logprob }) => Math.exp(logprob / 1.5));
      const sum = weights.reduce((all, weight) => all + weight, 0);
      expect(one.top_probs.map(({ id }) => id)).toEqual(before.top_logprobs.map(({ id }) => id));
      for (const [rank, { id, prob }] of one.top_probs.entries()) {
        expect(prob).toBeCloseTo((weights[rank] ?? 0) / sum, 4);
        if (id === one.id) expect(one.prob).toBe(prob);
      }
    }
    const greedy = {
      prompt: 'Once upon',
      temperature: 0,
      n_predict: 2,
      n_probs: 4,
      post_sampling_probs: true,
    };
    for (const one of (await ask('/completion', greedy)).completion_probabilities ?? [])
      expect(one).toMatchObject({ prob: 1, top_probs: [{ id: one.id, prob: 1 }] });
  });

  test('a schema and a grammar are enforced', async () => {
    const prompt = await question('Extract name and age as JSON: Ruby is 34 years old.');
    const json_schema = {
      type: 'object',
      properties: { name: { type: 'string' }, age: { type: 'integer' } },
      required: ['name', 'age'],
      additionalProperties: false,
    };
    const answer = await ask('/completion', { prompt, temperature: 0, json_schema });
    expect(JSON.parse(answer.content)).toEqual({
      name: expect.any(String) as string,
      age: expect.any(Number) as number,
    });
    const yes = await ask('/completion', { prompt: 'a', grammar: 'root ::= "yes" | "no"' });
    expect(yes.content).toMatch(/^(?:yes|no)$/);
    expect((await post('/completion', { prompt: 'a', grammar: 'root ::= (' })).status).toBe(400);
  });

  test('the same seed gives the same text; n_predict 0 only fills the cache', async () => {
    const body = { prompt: 'Tell me a story about an owl', n_predict: 24, seed: 11, ignore_eos: true };
    const first = await ask('/completion', body);
    expect(first.tokens_predicted).toBe(24);
    expect((await ask('/completion', body)).content).toBe(first.content);
    const prompt = await question(`Count ${'one two three '.repeat(40)}`);
    const warm = await ask('/completion', { prompt, n_predict: 0 });
    expect(warm).toMatchObject({ content: '', tokens_predicted: 0 });
    const answer = await ask('/completion', { prompt, n_predict: 1 });
    expect(answer.tokens_cached).toBeGreaterThan(0);
  });

  test('/props and /slots describe the server', async () => {
    const props = (await (await fetch(`${url}/props`)).json()) as {
      total_slots: number;
      chat_template: string;
    };
    expect(props.chat_template).toContain('<tool_call>');
    const slots = (await (await fetch(`${url}/slots`)).json()) as unknown[];
    expect(slots).toHaveLength(props.total_slots);
  });
});
