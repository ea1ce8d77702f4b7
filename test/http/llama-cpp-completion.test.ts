import { describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { llamaError } from '../../src/wires/llama-cpp/error.ts';
import { completionAnswer, completionPart } from '../../src/wires/llama-cpp/answer-schema.ts';
import { readEvents, scriptedServers } from '../support/serve.ts';
import { until } from '../support/until.ts';

const serve = scriptedServers();

const timings = {
  cache_n: 0,
  prompt_n: 4,
  prompt_ms: 1,
  prompt_per_token_ms: 0.25,
  prompt_per_second: 4000,
  predicted_n: 4,
  predicted_ms: 1,
  predicted_per_token_ms: 0.25,
  predicted_per_second: 4000,
};
const json = async (response: Response) => (await response.json()) as Record<string, unknown>;
const untilIdle = (engine: { running: number }) => until(() => engine.running === 0);
const events = async (response: Response) =>
  (await readEvents(response)).map((line) => JSON.parse(line) as Record<string, unknown>);

describe.each(['/completion', '/completions'])('POST %s', (path) => {
  test('the whole answer, with every member', async () => {
    const { post } = await serve();
    const response = await post(path, { prompt: 'abcd', seed: 7, stop: ['x', ''] });
    expect(response.status).toBe(200);
    expect(completionAnswer.strict().parse(await response.json())).toEqual({
      index: 0,
      content: 'Hello, world!',
      tokens: [],
      id_slot: -1,
      stop: true,
      model: 'scripted',
      tokens_predicted: 4,
      tokens_evaluated: 4,
      generation_settings: {
        n_ctx: 4096,
        model: 'scripted',
        n_predict: -1,
        max_tokens: -1,
        seed: 7,
        temperature: 0.8,
        top_k: 40,
        top_p: 0.95,
        min_p: 0.05,
        repeat_penalty: 1,
        repeat_last_n: -1,
        presence_penalty: 0,
        frequency_penalty: 0,
        dynatemp_range: 0,
        xtc_probability: 0,
        typical_p: 1,
        top_n_sigma: -1,
        dry_multiplier: 0,
        mirostat: 0,
        samplers: ['penalties', 'top_k', 'top_p', 'min_p', 'temperature'],
        stop: ['x'],
        ignore_eos: false,
        logit_bias: [],
        n_probs: 0,
        min_keep: 0,
        grammar: '',
        n_indent: 0,
        t_max_predict_ms: 0,
        stream: false,
        timings_per_token: false,
        post_sampling_probs: false,
        lora: [],
      },
      prompt: 'abcd',
      has_new_line: false,
      truncated: false,
      stop_type: 'eos',
      stopping_word: '',
      tokens_cached: 0,
      timings,
    });
  });

  test('a stream: parts, a last event without content, no [DONE]', async () => {
    const { post } = await serve();
    const response = await post(path, { prompt: 'abcd', stream: true });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const all = await events(response);
    expect(all.slice(0, -1)).toEqual(
      ['Hello', ', ', 'world', '!'].map((content, at) => ({
        index: 0,
        content,
        tokens: [at],
        stop: false,
        id_slot: -1,
        tokens_predicted: at + 1,
        tokens_evaluated: 4,
      })),
    );
    const last = completionAnswer.strict().parse(all.at(-1));
    expect(last).toMatchObject({ content: '', tokens: [], stop: true, stop_type: 'eos', timings });
  });
});

describe('the options of /completion', () => {
  const post = async (body: Record<string, unknown>, script: Parameters<typeof serve>[0] = {}) => {
    const host = await serve(script);
    const response = await host.post('/completion', { prompt: 'abcd', ...body });
    const answer = (await response.json()) as Record<string, unknown> & { error?: { message: string } };
    return { status: response.status, answer, engine: host.engine, engineRequest: host.engine.requests[0] };
  };

  test("llama.cpp's defaults reach the engine, and the options of a request override them", async () => {
    expect((await post({})).engineRequest).toMatchObject({
      maxTokens: 4092,
      stop: [],
      sampling: { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05, repetitionPenalty: 1 },
    });
    const given = {
      temperature: -1,
      top_k: -1,
      top_p: 1,
      min_p: 0,
      seed: -2,
      repeat_penalty: 1.5,
      repeat_last_n: -1,
      presence_penalty: 0.5,
      frequency_penalty: 0.25,
      n_predict: 2,
      ignore_eos: true,
      n_probs: 3,
      stop: 'y',
    };
    const { engineRequest, answer } = await post(given);
    expect(engineRequest).toMatchObject({
      maxTokens: 2,
      ignoreEnd: true,
      logprobs: 3,
      stop: ['y'],
      sampling: {
        temperature: 0,
        topK: 0,
        topP: 1,
        minP: 0,
        seed: 2 ** 32 - 2,
        repetitionPenalty: 1.5,
        presencePenalty: 0.5,
        frequencyPenalty: 0.25,
      },
    });
    expect(answer).toMatchObject({ stop_type: 'limit', truncated: false, content: 'Hello, ' });
  });

  test.each([
    ['a text', 'ab', [[97, 98]]],
    ['token ids', [97, 98], [[97, 98]]],
    ['ids and texts', [99, 'ab', 100], [[99, 97, 98, 100]]],
    ['an object', { prompt_string: 'ab', multimodal_data: [] }, [[97, 98]]],
    ['texts', ['a', 'b'], [[97], [98]]],
    ['a text alone in an array', ['a'], [[97]]],
    ['all of them', ['a', [98, 'c'], { prompt_string: 'd' }, [101]], [[97], [98, 99], [100], [101]]],
    ['special tokens in a text', 'a<|im_end|>', [[97, 257]]],
  ])('prompts: %s', async (_, prompt, expected) => {
    const { answer, engine } = await post({ prompt });
    expect(engine.requests.map((request) => request.prompt)).toEqual(expected);
    const isArray = Array.isArray(prompt) && !prompt.some((piece) => typeof piece === 'number');
    expect(Array.isArray(answer)).toBe(isArray);
    if (Array.isArray(answer))
      expect(answer.map(({ index }: { index: number }) => index)).toEqual(expected.map((__, at) => at));
  });

  test('BOS precedes a leading text, but not leading token ids', async () => {
    expect((await post({ prompt: 'a' }, { bosId: 256 })).engineRequest?.prompt).toEqual([256, 97]);
    expect((await post({ prompt: ['a', 98] }, { bosId: 256 })).engineRequest?.prompt).toEqual([256, 97, 98]);
    expect((await post({ prompt: [98, 'a'] }, { bosId: 256 })).engineRequest?.prompt).toEqual([98, 97]);
    expect((await post({ prompt: '' }, { bosId: 256 })).engineRequest?.prompt).toEqual([256]);
    expect((await post({ prompt: '' })).status).toBe(400);
  });

  test('n_predict: the remaining context, or only the prompt', async () => {
    const small = { contextLength: 7 };
    for (const n_predict of [-1, -2, 100]) {
      const { engineRequest, answer } = await post({ n_predict }, small);
      expect(engineRequest?.maxTokens).toBe(3);
      expect(answer).toMatchObject({ truncated: true, stop_type: 'limit', content: 'Hello, world' });
    }
    const { answer, engineRequest } = await post({ n_predict: 0 });
    expect(engineRequest?.maxTokens).toBe(1);
    expect(answer).toMatchObject({
      content: '',
      tokens_predicted: 0,
      stop_type: 'limit',
      truncated: false,
      timings: {
        ...timings,
        predicted_n: 0,
        predicted_ms: 0,
        predicted_per_token_ms: 0,
        predicted_per_second: 0,
      },
    });
    const full = await post({}, { contextLength: 4 });
    expect(full.status).toBe(400);
    expect(llamaError.parse(full.answer).error.type).toBe('exceed_context_size_error');
  });

  test('n_cmpl answers each prompt several times, with seeds of their own', async () => {
    const { answer, engine } = await post({ prompt: ['a', 'b'], n_cmpl: 2, seed: 5 });
    expect(answer).toHaveLength(4);
    expect(engine.requests.map(({ prompt, sampling }) => [prompt[0], sampling.seed])).toEqual([
      [97, 5],
      [97, 6],
      [98, 5],
      [98, 6],
    ]);
  });

  test('log probabilities as llama.cpp writes them', async () => {
    const { answer } = await post({ n_probs: 1 }, { answer: () => ['b'] });
    expect(answer['completion_probabilities']).toEqual([
      {
        id: 98,
        token: 'b',
        bytes: [98],
        logprob: -98 / 64,
        top_logprobs: [{ id: 97, token: 'a', bytes: [97], logprob: -97 / 64 }],
      },
    ]);
  });

  test('tokens, fields and stop words', async () => {
    expect((await post({ return_tokens: true })).answer['tokens']).toEqual([0, 1, 2, 3]);
    const response_fields = ['content', 'generation_settings/n_predict', 'timings/nothing', '__proto__', ''];
    expect((await post({ response_fields })).answer).toEqual({
      content: 'Hello, world!',
      'generation_settings/n_predict': -1,
    });
  });

  test('all forms of logit_bias', async () => {
    const bias = async (logit_bias: unknown) =>
      Object.fromEntries((await post({ logit_bias })).engineRequest?.sampling.logitBias ?? []);
    expect(
      await bias([
        [97, 1.5],
        ['bc', -1],
        [100, false],
        [101, 1e9],
      ]),
    ).toEqual({
      97: 1.5,
      98: -1,
      99: -1,
      100: -100,
      101: 100,
    });
    expect(await bias({ 97: 2, bc: false })).toEqual({ 97: 2, 98: -100, 99: -100 });
    expect(await bias([])).toEqual({});
    for (const wrong of [[[97]], [[97, true]], [[-1, 1]], 7, 'x', { a: 'b' }, [[999, 1]]]) {
      expect((await post({ logit_bias: wrong })).status).toBe(400);
    }
  });

  test('a grammar or a schema, not both', async () => {
    const host = await serve();
    const ask = (body: object) => host.post('/completion', { prompt: 'a', ...body });
    expect((await ask({ grammar: 'root ::= "x"' })).status).toBe(200);
    expect((await ask({ json_schema: {} })).status).toBe(200);
    expect(host.engine.requests.map(({ constraint }) => constraint !== undefined)).toEqual([true, true]);
    const both = await ask({ grammar: 'root ::= "x"', json_schema: {} });
    expect(both.status).toBe(400);
    expect(llamaError.parse(await both.json()).error.message).toContain('not both');
    expect((await ask({ grammar: '', json_schema: null })).status).toBe(200);
  });

  test('samplers: absent ones are disabled, infill selects the most likely token', async () => {
    const sampling = async (samplers: unknown) =>
      (await post({ samplers, repeat_penalty: 2 })).engineRequest?.sampling;
    const usual = [
      'penalties',
      'dry',
      'top_n_sigma',
      'top_k',
      'typ_p',
      'top_p',
      'min_p',
      'xtc',
      'temperature',
    ];
    expect(await sampling(usual)).toMatchObject({
      temperature: 0.8,
      topK: 40,
      topP: 0.95,
      repetitionPenalty: 2,
    });
    expect(await sampling(['top_k'])).toMatchObject({
      temperature: 1,
      topK: 40,
      topP: 1,
      minP: 0,
      repetitionPenalty: 1,
    });
    expect(await sampling(['top_k', 'top_p', 'infill'])).toMatchObject({ temperature: 0, topK: 40 });
    for (const wrong of [
      ['temperature', 'top_k'],
      ['top_k', 'top_k'],
      ['mirostat'],
      ['infill', 'top_k'],
      'top_k',
    ]) {
      expect((await post({ samplers: wrong })).status).toBe(400);
    }
  });

  test('unsupported options are refused by name, all at once; values without effect are accepted', async () => {
    const idle = {
      mirostat: 0,
      dynatemp_range: 0,
      xtc_probability: 0,
      dry_multiplier: 0,
      typical_p: 1,
      top_n_sigma: -1,
      min_keep: 0,
      post_sampling_probs: false,
      lora: [],
      image_data: [],
      id_slot: -1,
      cache_prompt: false,
      n_keep: 0,
      repeat_last_n: 64,
      unheard_of: 1,
    };
    expect((await post(idle)).status).toBe(200);
    const active = {
      mirostat: 2,
      dynatemp_range: 1,
      xtc_probability: 0.5,
      dry_multiplier: 1,
      typical_p: 0.5,
      top_n_sigma: 1,
      min_keep: 5,
      lora: [{ id: 0, scale: 1 }],
      image_data: [{ data: '', id: 1 }],
    };
    const { status, answer } = await post(active);
    expect(status).toBe(400);
    for (const name of Object.keys(active)) expect(answer.error?.message).toContain(name);
  });

  test('a penalty window applies to the whole text, and is reported as such', async () => {
    const used = async (members: object) => {
      const { engineRequest, answer } = await post({ repeat_penalty: 1.1, ...members });
      const settings = answer.generation_settings as { repeat_last_n: number };
      return [engineRequest?.sampling.repetitionPenalty, settings.repeat_last_n];
    };
    expect(await used({ repeat_last_n: 64 })).toEqual([1.1, -1]);
    expect(await used({ repeat_last_n: 4096 })).toEqual([1.1, -1]);
    expect(await used({})).toEqual([1.1, -1]);
    expect(await used({ repeat_last_n: 0 })).toEqual([1, 0]);
  });

  test('members have aliases', async () => {
    const { engineRequest, answer } = await post({ max_tokens: 3, logprobs: 2, t_max_predict_ms: -1 });
    expect(engineRequest).toMatchObject({ maxTokens: 3, logprobs: 2 });
    expect(answer.generation_settings).toMatchObject({ n_predict: 3, max_tokens: 3, n_probs: 2 });
    const first = await post({ n_predict: 2, max_tokens: 3, n_probs: 1, logprobs: 2 });
    expect(first.engineRequest).toMatchObject({ maxTokens: 2, logprobs: 1 });
    expect((await post({ n: 2 })).answer).toHaveLength(2);
  });

  test('samplers of other versions are accepted where they are disabled', async () => {
    const samplers = ['penalties', 'dry', 'top_k', 'tfs_z', 'typ_p', 'top_p', 'min_p', 'xtc', 'temperature'];
    expect((await post({ samplers, tfs_z: 1 })).status).toBe(200);
  });

  test.each([
    { prompt: undefined },
    { prompt: null },
    { prompt: [] },
    { prompt: [[]] },
    { prompt: ['a', 7.5] },
    { prompt: [1, [2]] },
    { prompt: [[1, [2]]] },
    { prompt: [999] },
    { prompt: { prompt_string: 'a', multimodal_data: ['AAAA'] } },
    { prompt: Array.from({ length: 129 }, () => 'a') },
    { prompt: ['a'], n_cmpl: 129 },
    { n_predict: -3 },
    { temperature: 'hot' },
    { n_probs: 21 },
    { stop: [7] },
    { n_indent: -1 },
    { response_fields: 'content' },
    { samplers: [7] },
  ])('refused: %j', async (body) => {
    const { status, answer } = await post(body);
    expect(status).toBe(400);
    expect(llamaError.strict().parse(answer).error).toMatchObject({
      code: 400,
      type: 'invalid_request_error',
    });
  });
});

describe('stop conditions for editors', () => {
  const lines = ['if x:', '\n', '    one', '\n\n', '    two\nthree', ' more'];
  test('n_indent ends before a line with less indentation, streamed or not', async () => {
    const { post, engine } = await serve({ answer: () => lines });
    const body = { prompt: 'a', n_indent: 4 };
    const answer = await json(await post('/completion', body));
    expect(answer).toMatchObject({
      content: 'if x:\n    one\n\n    two',
      stop_type: 'limit',
      has_new_line: true,
    });
    const all = await events(await post('/completion', { ...body, stream: true }));
    expect(all.map(({ content }) => content).join('')).toBe('if x:\n    one\n\n    two');
    await untilIdle(engine);
    const whole = await json(await post('/completion', { prompt: 'a' }));
    expect(whole['content']).toBe(lines.join(''));
  });

  test('t_max_predict_ms ends an answer that has a line break', async () => {
    const { post, engine } = await serve({
      answer: () => Array.from({ length: 500 }, () => 'x\n'),
      delayMs: 5,
    });
    const answer = await json(await post('/completion', { prompt: 'a', t_max_predict_ms: 20 }));
    expect(answer).toMatchObject({ stop_type: 'limit', truncated: false });
    expect(engine.produced).toBeLessThan(500);
    await untilIdle(engine);
    const timed = answer['timings'] as { predicted_n: number };
    expect(timed.predicted_n).toBe(answer['tokens_predicted']);
  });
});

describe('streams', () => {
  test('several prompts, timings and progress', async () => {
    const { post } = await serve();
    const body = { prompt: ['a', 'b'], stream: true, timings_per_token: true, return_progress: true };
    const all = await events(await post('/completion', body));
    for (const index of [0, 1]) {
      const own = all.filter((event) => event['index'] === index);
      expect(own.slice(0, 2).map(({ content, prompt_progress }) => [content, prompt_progress])).toEqual([
        ['', { total: 1, cache: 0, processed: 0, time_ms: 0 }],
        ['', { total: 1, cache: 0, processed: 1, time_ms: 1 }],
      ]);
      expect(own.slice(2, -1).map(({ content }) => content)).toEqual(['Hello', ', ', 'world', '!']);
      for (const part of own.slice(0, -1)) {
        expect(completionPart.strict().parse(part).timings?.prompt_n).toBe(1);
      }
      // Timings of each event, although the next event may already exist.
      expect(own.slice(2, -1).map((part) => part['tokens_predicted'])).toEqual([1, 2, 3, 4]);
      expect(own.at(-1)).toMatchObject({ stop: true, content: '' });
    }
  });

  test('a failure mid-stream is an event with the error', async () => {
    const { post, faults } = await serve({
      fail: { after: 2, error: new EngineError('device_lost', 'lost') },
    });
    const all = await events(await post('/completion', { prompt: 'a', stream: true }));
    expect(all.map(({ content }) => content)).toEqual(['Hello', ', ', undefined]);
    expect(llamaError.strict().parse(all.at(-1)).error).toEqual({
      code: 503,
      message: 'lost',
      type: 'unavailable_error',
    });
    expect(faults).toEqual([]);
  });

  test('a client that disconnects frees the engine', async () => {
    const { post, engine } = await serve({
      answer: () => Array.from({ length: 1000 }, () => 'x'),
      delayMs: 2,
    });
    const controller = new AbortController();
    const { signal } = controller;
    const response = await post('/completion', { prompt: ['a', 'b'], stream: true }, { signal });
    await response.body?.getReader().read();
    controller.abort();
    await untilIdle(engine);
  });
});
