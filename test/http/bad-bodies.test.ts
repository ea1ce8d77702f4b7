import { describe, expect, test } from 'vitest';
import { openaiError } from '../../src/planes/error-schema.ts';
import { scriptedServers } from '../support/serve.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { everyNth } from '../support/tier.ts';

const serve = scriptedServers();

const hi = { messages: [{ role: 'user', content: 'hi' }] };
const chat = '/v1/chat/completions';
const answered = { role: 'assistant', content: 'well' };
const tool = (name: string, more: object = {}) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', ...more } },
});

describe('bad input', () => {
  test('every violation of a body at once, with its path', async () => {
    const { post } = await serve();
    const response = await post(chat, {
      messages: [
        { role: 'user', content: [{ type: 'image_url' }] },
        { role: 'robot', content: '' },
        3,
        { role: 'user' },
      ],
      temperature: 2.1,
      top_p: 'all',
      top_k: -2,
      logit_bias: { x: 1, 3: 101 },
      stop: ['', 7],
      seed: 1.5,
      stream: 'yes',
      max_tokens: 0,
      n: 129,
      tools: [{}, { type: 'function', function: { name: 'a b', parameters: [] } }],
      tool_choice: 'some',
      response_format: { type: 'json_schema', json_schema: { name: 'no spaces', schema: 'x' } },
      guided_choice: [],
      structured_outputs: { json: '[' },
      top_logprobs: 21,
      reasoning_effort: 'huge',
      chat_template_kwargs: [],
    });
    expect(response.status).toBe(400);
    const { error } = openaiError.parse(await response.json());
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'invalid_value' });
    expect(new Set(error.violations?.map(({ path }) => path))).toEqual(
      new Set([
        'messages.0.content.0.type',
        'messages.1.role',
        'messages.2',
        'messages.3.content',
        'temperature',
        'top_p',
        'top_k',
        'logit_bias.x',
        'logit_bias.3',
        'stop.0',
        'stop.1',
        'seed',
        'stream',
        'max_tokens',
        'n',
        'tools.0.type',
        'tools.1.function.name',
        'tools.1.function.parameters',
        'tool_choice',
        'response_format.json_schema.name',
        'response_format.json_schema.schema',
        'guided_choice',
        'structured_outputs.json',
        'top_logprobs',
        'reasoning_effort',
        'chat_template_kwargs',
      ]),
    );
    expect(error.message).toContain("parts of type 'image_url' cannot be read");
  });

  test.each([
    [{ functions: [{ name: 'f' }] }, 'functions'],
    [{ function_call: { name: 'f' } }, 'function_call'],
    [{ modalities: ['text', 'audio'] }, 'modalities'],
    [{ audio: {} }, 'audio'],
    [{ web_search_options: {} }, 'web_search_options'],
    [{ moderation: { model: 'm' } }, 'moderation'],
    [{ chat_template: '{{ x }}' }, 'chat_template'],
    [{ documents: [{ title: 'a', text: 'b' }] }, 'documents'],
    [{ echo: true }, 'echo'],
    [{ best_of: 2 }, 'best_of'],
    [{ allowed_token_ids: [1] }, 'allowed_token_ids'],
    [{ stop_regex: 'a+' }, 'stop_regex'],
    [{ truncate_prompt_tokens: 9 }, 'truncate_prompt_tokens'],
    [{ min_tokens: 3 }, 'min_tokens'],
    [{ use_beam_search: true }, 'use_beam_search'],
    [{ reasoning: { exclude: true } }, 'reasoning.exclude'],
    [{ reasoning_format: 'none' }, 'reasoning_format'],
    [{ stop_token_ids: [1] }, 'stop_token_ids'],
    [{ structured_outputs: { structural_tag: {} } }, 'structured_outputs.structural_tag'],
  ])('%j is refused as not supported rather than ignored', async (member, param) => {
    const { post, engine } = await serve();
    const response = await post(chat, { ...hi, ...member });
    expect(response.status).toBe(400);
    expect(openaiError.parse(await response.json()).error).toMatchObject({
      code: 'unsupported_parameter',
      param,
    });
    expect(engine.requests).toEqual([]);
  });

  test('their idle values pass, and what changes no answer is ignored', async () => {
    const { post } = await serve();
    const idle = {
      n: 1,
      logprobs: false,
      top_logprobs: 0,
      tools: [],
      tool_choice: 'auto',
      functions: [],
      response_format: { type: 'text' },
      modalities: ['text'],
      min_tokens: 0,
    };
    const ignored = {
      store: true,
      metadata: { a: 'b' },
      user: 'u',
      service_tier: 'flex',
      prediction: { type: 'content', content: 'x' },
      prompt_cache_key: 'k',
    };
    expect((await post(chat, { ...hi, ...idle, ...ignored })).status).toBe(200);
  });

  test.each([
    [{ tool_choice: 'required' }, 'tool_choice', 'defines no tools'],
    [{ tool_choice: { type: 'function', function: { name: 'g' } } }, 'tool_choice', "no tool 'g'"],
    [{ tools: [tool('f'), tool('f')] }, 'tools.1.function.name', "also named 'f'"],
    [
      { tools: [tool('f')], tool_choice: { type: 'function', function: { name: 'g' } } },
      'tool_choice',
      "no tool 'g': the tools are 'f'",
    ],
    [
      {
        tools: [tool('f')],
        tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [tool('g')] } },
      },
      'tool_choice',
      "no tool 'g'",
    ],
    [{ tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools.0.type', "tools of type 'custom'"],
    [{ tools: Array.from({ length: 513 }, (_, index) => tool(`f${index}`)) }, 'tools', 'at most 512'],
    [
      { tools: [tool('f', { enum: Array(30_000).fill(0) })] },
      'tools.0.function.parameters',
      'at most 20000 values',
    ],
    [
      { tools: [tool('f', { description: 'x'.repeat(1_100_000) })] },
      'tools.0.function.parameters',
      '1000000 characters',
    ],
    [{ top_logprobs: 2 }, 'top_logprobs', 'needs `logprobs: true`'],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema', 'expected {schema}'],
    [
      { response_format: { type: 'json_object' }, grammar: 'root ::= "a"' },
      'grammar',
      'response_format already constrains',
    ],
    [{ guided_regex: 'a', guided_choice: ['a'] }, 'guided_choice', 'guided_regex already constrains'],
    [
      { structured_outputs: { regex: 'a', grammar: 'b' } },
      'structured_outputs.grammar',
      'send only one of them',
    ],
    [{ add_generation_prompt: false }, 'add_generation_prompt', "must be the assistant's"],
    [{ continue_final_message: true }, 'continue_final_message', "must be the assistant's"],
    [
      { continue_final_message: true, add_generation_prompt: true, messages: [...hi.messages, answered] },
      'continue_final_message',
      'cannot be combined with `add_generation_prompt',
    ],
  ])('what does not go together is refused: %.150j', async (members, param, message) => {
    const { post, engine } = await serve();
    const response = await post(chat, { ...hi, ...members });
    expect(response.status).toBe(400);
    const { error } = openaiError.parse(await response.json());
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'invalid_value', param });
    expect(error.message).toContain(message);
    expect(engine.requests).toEqual([]);
  });

  test('answers that are too many or too long together are refused, naming the numbers', async () => {
    const { post, engine } = await serve({ contextLength: 1000 });
    for (const [path, body, param, message] of [
      [chat, { ...hi, n: 64, max_tokens: 900 }, 'n', /64 answers of up to 900 tokens are 57600.*32000/],
      ['/v1/completions', { prompt: Array(128).fill('a'), n: 9 }, 'prompt', /1152 answers; at most 1024/],
      ['/v1/completions', { prompt: 'a', n: 2, best_of: 1 }, 'best_of', /at least n, which is 2/],
      ['/v1/completions', { prompt: 'a', best_of: 2, stream: true }, 'best_of', /leave `stream` out/],
      ['/v1/completions', { prompt: ['a'], suffix: 'b' }, 'suffix', /a prompt that is one text/],
      ['/v1/completions', { prompt: 'a', logprobs: 6 }, 'logprobs', /from 0 to 5/],
      ['/v1/completions', { prompt: 'a', logprobs: true }, 'logprobs', /from 0 to 5/],
    ] as const) {
      const response = await post(path, body);
      expect(response.status).toBe(400);
      const { error } = openaiError.parse(await response.json());
      expect(error.param).toBe(param);
      expect(error.message).toMatch(message);
    }
    expect(engine.requests).toEqual([]);
    expect((await post(chat, { ...hi, n: 64 })).status).toBe(200);
    expect(engine.requests.map(({ maxTokens }) => maxTokens)).toEqual(Array(64).fill(500));
  });

  test.each([
    ['{"messages":', 400, 'invalid_json'],
    ['', 400, 'invalid_json'],
    ['null', 400, 'invalid_value'],
    ['[]', 400, 'invalid_value'],
    ['{}', 400, 'invalid_value'],
    ['{"messages":[]}', 400, 'invalid_value'],
    ['{"messages":[{"role":"tool","content":"x"}]}', 400, 'chat_template_error'],
    [`{"messages":${'['.repeat(100_000)}`, 400, 'nested_too_deep'],
    [
      `{"messages":[{"role":"user","content":"a"}],"guided_json":"${'['.repeat(9_000)}"}`,
      400,
      'nested_too_deep',
    ],
    [`{"x":${'['.repeat(50_000)}${']'.repeat(50_000)},"messages":[]}`, 400, 'nested_too_deep'],
  ])('body %.40s', async (body, status, code) => {
    const { post, faults } = await serve();
    const response = await post(chat, body);
    expect(response.status).toBe(status);
    expect(openaiError.parse(await response.json()).error.code).toBe(code);
    expect(faults).toEqual([]);
  });

  test('a body that is not UTF-8 is refused', async () => {
    const { post } = await serve();
    const body = new Uint8Array([0x22, 0xff, 0x22]);
    const response = await post(chat, '', { body });
    expect(response.status).toBe(400);
    expect(openaiError.parse(await response.json()).error).toMatchObject({
      code: 'invalid_json',
      message: expect.stringContaining('UTF-8'),
    });
  });

  test('a wrong or absent content type is 415, so a foreign page cannot post', async () => {
    const { post } = await serve();
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonx',
    ];
    for (const type of types) {
      const response = await post(chat, hi, { headers: { 'content-type': type, origin: 'http://evil.com' } });
      expect(response.status).toBe(415);
    }
    const untyped = await post(chat, hi, { headers: {}, body: new Blob([JSON.stringify(hi)]) });
    expect(untyped.status).toBe(415);
    expect(
      (await post(chat, hi, { headers: { 'content-type': 'Application/JSON;charset=utf-8' } })).status,
    ).toBe(200);
  });

  test('no answer carries a CORS allowance; a preflight is 403 and names the flag', async () => {
    const { get, post } = await serve();
    const preflight = await get(chat, {
      method: 'OPTIONS',
      headers: { origin: 'http://evil.com', 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(403);
    expect(await preflight.text()).toContain('--allowed-origin http://evil.com');
    for (const { headers } of [
      preflight,
      await post(chat, hi, { headers: { 'content-type': 'application/json', origin: 'http://evil.com' } }),
    ]) {
      expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });

  test('a body over the limit is 413, by Content-Length or by counting', async () => {
    const { post, get } = await serve();
    const big = 'x'.repeat(33 * 1024 * 1024);
    expect((await post(chat, big)).status).toBe(413);
    const chunks = new ReadableStream({
      start(controller) {
        for (let chunk = 0; chunk < 33; chunk++) controller.enqueue(new Uint8Array(1024 * 1024).fill(32));
        controller.close();
      },
    });
    const counted = await post(chat, '', { body: chunks, duplex: 'half' } as RequestInit);
    expect(counted.status).toBe(413);
    expect((await get('/health')).status).toBe(200);
  });

  test('a 10 MB prompt is refused soon, naming both numbers, while others are served', async () => {
    const { post, get, engine } = await serve({ contextLength: 1024 });
    let encoded = 0;
    const { tokenizer } = engine;
    const encode = tokenizer.encode.bind(tokenizer);
    tokenizer.encode = (text, options) => {
      encoded += text.length;
      return encode(text, options);
    };
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'word '.repeat(2_000_000) }] });
    const refused = post(chat, body);
    let healthy = 0;
    let waiting = true;
    void refused.finally(() => {
      waiting = false;
    });
    while (waiting) {
      await (await get('/health')).text();
      healthy += 1;
    }
    const response = await refused;
    expect(response.status).toBe(400);
    const { error } = openaiError.parse(await response.json());
    expect(error.code).toBe('context_length_exceeded');
    expect(error.message).toMatch(/1024 tokens.*about \d{6,}/);
    expect(healthy).toBeGreaterThan(0);
    expect(encoded).toBeLessThan(100_000);
  });

  test('10 MB of invalid elements are refused quickly, naming the first, in bounded memory', async () => {
    const { post, faults } = await serve();
    const many = (element: string, bytes = 10_000_000) =>
      Array(Math.floor(bytes / (element.length + 1)))
        .fill(element)
        .join(',');
    const messagesMember = '"messages":[{"role":"user","content":"hi"}]';
    const enumOf = JSON.stringify(Array(5000).fill(0));
    const bigTool = `{"type":"function","function":{"name":"f","parameters":{"enum":${enumOf}}}}`;
    const bodies = [
      [chat, `{"messages":[${many('1')}]}`, 'messages.0', 'expected a message'],
      [chat, `{"messages":[{"role":"user","content":[${many('1')}]}]}`, 'messages.0.content.0', 'a part'],
      [chat, `{${messagesMember},"tools":[${many('1')}]}`, 'tools.0', 'expected a tool'],
      [chat, `{${messagesMember},"guided_choice":[${many('"a"')}]}`, 'guided_choice', 'at most 1000 texts'],
      [
        chat,
        `{${messagesMember},"json_schema":{"enum":[${many('1')}]}}`,
        'json_schema',
        'at most 20000 values',
      ],
      [chat, `{${messagesMember},"tools":[${many(bigTool, 5_000_000)}]}`, 'tools', '100000 values'],
      ['/v1/completions', `{"prompt":[1,${many('1.5')}]}`, 'prompt.1', 'expected a token id'],
      ['/v1/completions', `{"prompt":[${many('[1]', 3_000_000)}]}`, 'prompt', 'at most 128 prompts'],
    ] as const;
    /** As long to read, and wrong in one place. */
    const control = await cpuMs(() => post(chat, `{"messages":[],"user":[${many('1')}]}`));
    for (const [path, body, param, message] of everyNth(bodies, 3)) {
      let response = new Response();
      const ms = await cpuMs(async () => {
        response = await post(path, body);
      });
      expect(response.status).toBe(400);
      const { error } = openaiError.parse(await response.json());
      expect(error).toMatchObject({ code: 'invalid_value', param });
      expect(error.message).toContain(message);
      expect(error.violations?.length).toBeLessThanOrEqual(50);
      // Checks that report every element, or compare each pair, take far longer.
      expect(ms, param).toBeLessThan(30 * control);
    }
    expect(faults).toEqual([]);
  });

  test.each([
    ['/v1/completions', { prompt: [] }, 'prompt: must not be empty.'],
    ['/v1/completions', { prompt: ['a', 1] }, 'prompt.1: expected a text.'],
    ['/v1/completions', { prompt: [...Array(150).keys(), -1] }, 'prompt.150: expected a token id.'],
    ['/v1/completions', { prompt: [[1], [2, -1]] }, 'prompt.1.1: expected a token id.'],
    ['/v1/completions', { prompt: Array(129).fill('a') }, 'prompt: at most 128 prompts.'],
    ['/v1/completions', { prompt: 7 }, /^prompt: expected a text, an array of texts, /],
    [chat, { ...hi, stop: '' }, 'stop: a stop text must not be empty.'],
    [chat, { ...hi, stop: Array(17).fill('a') }, 'stop: at most 16 stop texts.'],
    [chat, { ...hi, stop: 7 }, 'stop: expected a text or up to 16 texts.'],
    [chat, { ...hi, logit_bias: 1 }, /^logit_bias: expected an object of token ids to numbers/],
    [
      chat,
      { ...hi, logit_bias: [[1, 2], [1, 101], [-1, 1], 4, [true, false]] },
      /^logit_bias\.1: expected a number from -100 to 100, or false; logit_bias\.2: expected \[token id .*logit_bias\.3: .*logit_bias\.4: /,
    ],
    [
      chat,
      {
        messages: [
          ...hi.messages,
          { role: 'assistant', tool_calls: [{ id: 'a', type: 'x', function: 3 }, 4] },
        ],
      },
      "messages.1.tool_calls.0.type: expected 'function'; messages.1.tool_calls.0.function: expected {name, arguments}; messages.1.tool_calls.1: expected a tool call such as {id, type, function}.",
    ],
  ])('%s refuses invalid body %# with a helpful message', async (path, body, message) => {
    const { post } = await serve();
    const response = await post(path, body);
    expect(response.status).toBe(400);
    const { error } = openaiError.parse(await response.json());
    expect(error.message).toEqual(typeof message === 'string' ? message : expect.stringMatching(message));
  });

  test('an encoded body is 415, not invalid JSON', async () => {
    const { post } = await serve();
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    const response = await post(chat, hi, { headers });
    expect(response.status).toBe(415);
    expect(openaiError.parse(await response.json()).error.code).toBe('unsupported_encoding');
  });

  test('a prompt and answer that exceed the context are refused, naming both numbers', async () => {
    const { post } = await serve({ contextLength: 100 });
    const response = await post(chat, { ...hi, max_tokens: 100 });
    expect(response.status).toBe(400);
    expect(openaiError.parse(await response.json()).error).toMatchObject({
      code: 'context_length_exceeded',
      message: expect.stringMatching(/100 tokens.*121/),
    });
  });
});
