import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { framesOf } from '../support/gateway/frames.ts';
import { type Customer, gatewayWorld } from '../support/gateway/world.ts';

/** Where both sides speak the same, nothing changes but what has to. */

let world: Awaited<ReturnType<typeof gatewayWorld>>;
let customer: Customer;

beforeAll(async () => {
  world = await gatewayWorld();
  customer = await world.customer();
});
afterAll(async () => {
  const wrong = [...(await world.witness.faults()), ...world.faults];
  await world.close();
  expect(wrong).toEqual([]);
});

/** What JSON.parse and JSON.stringify would not give back: numbers, escapes, spaces, order, an unknown member. */
const odd = String.raw`"zz_unknown":{"b":1.0,"a":12345678901234567890,"c":-0,"d":1e400,"e":"é\/","10":1,"2":2},`;
const hi = String.raw`[ {"role":"user","content":"Hi \u263A"} ]`;

const requests = {
  'chat at chat': [
    '/v1/chat/completions',
    (model: string) => `{ "model" : "${model}", ${odd}\n "messages":${hi}, "max_completion_tokens":9 }`,
  ],
  'chat at copy': [
    '/v1/chat/completions',
    (model: string) => `{ "model" : "${model}", ${odd}\n "messages":${hi}, "max_tokens":9 }`,
  ],
  'chat at host': [
    '/v1/chat/completions',
    (model: string) => `{ "model" : "${model}", ${odd}\n "messages":${hi}, "max_tokens":9 }`,
  ],
  'responses at responses': [
    '/v1/responses',
    (model: string) =>
      `{ "model" : "${model}", ${odd}\n "input":${hi}, "max_output_tokens":9, "store":false,"stream":false }`,
  ],
  'messages at claude': [
    '/v1/messages',
    (model: string) => `{ "model" : "${model}", ${odd}\n "messages":${hi}, "max_tokens":9 }`,
  ],
  'completions at copy': [
    '/v1/completions',
    (model: string) => `{ "model" : "${model}", ${odd}\n "prompt":"Hi \\u263A", "max_tokens":9 }`,
  ],
} as const;

const usage = `"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"zz":1.0}`;
const answers: Readonly<Record<keyof typeof requests, string>> = {
  'chat at chat': `{${odd}"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"\\u00e9","refusal":null},"logprobs":null,"finish_reason":"stop"}],${usage}}`,
  'chat at copy': `{${odd}"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"\\u00e9","refusal":null},"logprobs":null,"finish_reason":"stop"}],${usage}}`,
  'chat at host': `{${odd}"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"\\u00e9","refusal":null},"logprobs":null,"finish_reason":"stop"}],${usage}}`,
  'responses at responses': `{${odd}"id":"x","object":"response","status":"completed","output":[{"type":"zz_item","v":1.0}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}`,
  'messages at claude': `{${odd}"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"zz_block","v":1.0}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}`,
  'completions at copy': `{${odd}"id":"x","object":"text_completion","created":1,"model":"m","choices":[{"text":"\\u00e9","index":0,"logprobs":null,"finish_reason":"stop"}],${usage}}`,
};

const send = async (path: string, text: string) => {
  const response = await fetch(world.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.secret}`, 'content-type': 'application/json' },
    body: text,
  });
  return { status: response.status, text: await response.text() };
};

describe.each(Object.keys(requests) as (keyof typeof requests)[])('%s', (title) => {
  const [path, body] = requests[title];
  const model = title.split(' ').at(-1) ?? '';

  it('a request is the same to the byte, but for the name of the model', async () => {
    world.provider.script([{ raw: { body: answers[title] } }]);
    const { status, text } = await send(path, body(model));
    expect(status, text).toBe(200);
    expect(world.provider.requests.at(-1)?.text).toBe(body(`upstream-${model}`));
  });

  it('an answer is the same to the byte', async () => {
    world.provider.script([{ raw: { body: answers[title] } }]);
    expect((await send(path, body(model))).text).toBe(answers[title]);
  });
});

describe('a stream', () => {
  const streams: Readonly<Record<string, readonly [path: string, ask: string, frames: string]>> = {
    chat: [
      '/v1/chat/completions',
      `{"model":"copy","stream":true,"stream_options":{"include_usage":true},"messages":${hi}}`,
      [
        `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m",${odd}"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}\n\n`,
        `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m",${odd}"choices":[{"index":0,"delta":{"content":"\\u00e9"},"logprobs":null,"finish_reason":null}],"usage":null}\n\n`,
        `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}\n\n`,
        `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],${usage}}\n\n`,
        'data: [DONE]\n\n',
      ].join(''),
    ],
    responses: [
      '/v1/responses',
      `{"model":"responses","stream":true,"input":${hi}}`,
      [
        `event: response.created\ndata: {"type":"response.created","sequence_number":0,${odd}"response":{"id":"x","status":"in_progress","output":[]}}\n\n`,
        `event: response.zz_unknown\ndata: {"type":"response.zz_unknown","v":1.0,"sequence_number":1}\n\n`,
        `event: response.completed\ndata: {"type":"response.completed","sequence_number":2,"response":{"id":"x","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}}\n\n`,
      ].join(''),
    ],
    messages: [
      '/v1/messages',
      `{"model":"claude","stream":true,"max_tokens":9,"messages":${hi}}`,
      [
        `event: message_start\ndata: {"type":"message_start",${odd}"message":{"id":"x","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}\n\n`,
        `event: ping\ndata: {"type": "ping"}\n\n`,
        `event: zz_unknown\ndata: {"type":"zz_unknown","v":1.0}\n\n`,
        `event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}\n\n`,
        `event: message_stop\ndata: {"type":"message_stop"}\n\n`,
      ].join(''),
    ],
  };

  it.each(Object.keys(streams))('of %s is the same to the byte', async (wire) => {
    const [path, ask, frames] = streams[wire] ?? ['', '', ''];
    world.provider.script([{ raw: { body: frames } }]);
    const { text } = await send(path, ask);
    const own = wire === 'messages' ? text.replace(/event: svc_receipt\n.*\n\n$/, '') : text;
    expect(own).toBe(frames);
  });
});

describe('servers that copied the wire and leave members out', () => {
  it.each<[string, string]>([
    [
      'no index, no logprobs, no refusal, no usage',
      '{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}',
    ],
    ['nothing but the text', '{"choices":[{"message":{"content":"Hi"}}]}'],
    [
      'null calls, a null fingerprint, an ending of its own',
      '{"id":"x","object":"chat.completion","created":1,"model":"m","system_fingerprint":null,"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":null,"function_call":null},"finish_reason":"eos"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}',
    ],
  ])('a body with %s', async (_, body) => {
    world.provider.script([{ raw: { body } }]);
    const { status, text } = await send('/v1/chat/completions', `{"model":"copy","messages":${hi}}`);
    expect(status, text).toBe(200);
    expect(JSON.parse(text)).toMatchObject({
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hi', refusal: null },
          finish_reason: 'stop',
          logprobs: null,
        },
      ],
    });
  });

  it.each<[string, readonly string[]]>([
    [
      'as llama.cpp: the role with null content, timings',
      [
        '{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"x","model":"m","system_fingerprint":"b1","object":"chat.completion.chunk"}',
        '{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hi"}}],"created":1,"id":"x","model":"m","object":"chat.completion.chunk"}',
        '{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"x","model":"m","object":"chat.completion.chunk"}',
        '{"choices":[],"created":1,"id":"x","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":3,"total_tokens":5},"timings":{"prompt_n":1}}',
      ],
    ],
    [
      'as Ollama: the role in every chunk',
      [
        '{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}',
        '{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}',
        '{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}',
      ],
    ],
    [
      'as some proxies: usage beside the ending, no ids',
      [
        '{"choices":[{"delta":{"content":"Hi"}}]}',
        '{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}',
      ],
    ],
  ])('a stream %s', async (_, chunks) => {
    world.provider.script([
      { raw: { body: [...chunks, '[DONE]'].map((chunk) => `data: ${chunk}\n\n`).join('') }, split: 3 },
    ]);
    const { text } = await send(
      '/v1/chat/completions',
      `{"model":"copy","stream":true,"stream_options":{"include_usage":true},"messages":${hi}}`,
    );
    const frames = framesOf(text).map(({ data }) => data);
    expect(frames.at(-1)).toBe('[DONE]');
    const payloads = frames.slice(0, -1).map((data) => JSON.parse(data) as Chunk);
    expect(payloads.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('Hi');
    expect(payloads[0]?.choices[0]?.delta['role']).toBe('assistant');
    expect(payloads.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } });
    expect(payloads.every(({ id, created }) => typeof id === 'string' && Number.isInteger(created))).toBe(
      true,
    );
  });
});

interface Chunk {
  readonly id?: string;
  readonly created?: number;
  readonly choices: readonly {
    readonly delta: { readonly content?: string; readonly [more: string]: unknown };
  }[];
}
