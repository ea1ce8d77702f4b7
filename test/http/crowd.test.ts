import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';
import { until } from '../support/until.ts';

let host: HostProcess;
let url: string;
let model: string;
beforeAll(async () => {
  buildHost();
  host = startHost(['--gpu', '--port', '0', '--queue', '64']);
  url = await host.url();
  const list = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
  model = list.data[0]?.id ?? '';
});
afterAll(() => host?.end());

const post = (path: string, body: object, signal?: AbortSignal) =>
  fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });

/** Extracts the answer's text from the frames of each wire. */
interface Frame {
  readonly type?: string;
  readonly content?: string;
  readonly delta?: string | { readonly text?: string };
  readonly message?: { readonly content?: string };
  readonly choices?: readonly { readonly text?: string; readonly delta?: { readonly content?: string } }[];
}

const frames = (text: string): Frame[] =>
  text
    .split('\n')
    .map((line) => line.replace(/^data: /, ''))
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Frame);

interface Wire {
  readonly path: string;
  /** The request of a conversation of one question. */
  readonly body: (question: string) => object | Promise<object>;
  readonly text: (frame: Frame) => string | undefined;
}

const userMessages = (content: string) => [{ role: 'user', content }];
const rendered = async (content: string) =>
  (await (await post('/apply-template', { messages: userMessages(content) })).json()) as { prompt: string };

const wires: readonly [Wire, ...Wire[]] = [
  {
    path: '/v1/chat/completions',
    body: (content) => ({ messages: userMessages(content), temperature: 0 }),
    text: ({ choices }) => choices?.[0]?.delta?.content,
  },
  {
    path: '/v1/messages',
    body: (content) => ({ messages: userMessages(content), temperature: 0, max_tokens: 200 }),
    text: ({ delta }) => (typeof delta === 'object' ? delta.text : undefined),
  },
  {
    path: '/v1/responses',
    body: (input) => ({ input, temperature: 0 }),
    text: ({ type, delta }) =>
      type === 'response.output_text.delta' && typeof delta === 'string' ? delta : undefined,
  },
  {
    path: '/api/chat',
    body: (content) => ({ model, messages: userMessages(content), options: { temperature: 0 } }),
    text: ({ message }) => message?.content,
  },
  {
    path: '/completion',
    body: async (content) => ({ ...(await rendered(content)), temperature: 0 }),
    text: ({ content }) => content,
  },
  {
    path: '/v1/completions',
    body: async (content) => ({ ...(await rendered(content)), temperature: 0, max_tokens: 200 }),
    text: ({ choices }) => choices?.[0]?.text,
  },
];

async function streamed(wire: Wire, question: string): Promise<string> {
  const response = await post(wire.path, { ...(await wire.body(question)), stream: true });
  const text = await response.text();
  expect(response.status, `${wire.path}: ${text.slice(0, 300)}`).toBe(200);
  return frames(text)
    .map((frame) => wire.text(frame) ?? '')
    .join('');
}

const busy = async () =>
  ((await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[]).filter(
    (slot) => slot.is_processing,
  ).length;
const untilIdle = () => until(async () => (await busy()) === 0);

const questions = [
  'What is the capital of Italy?',
  'What is the capital of France?',
  'What is the opposite of hot?',
  'What day comes after Monday?',
  'What is 27 + 48?',
  'Hello, who are you?',
  'What is a parity gate?',
  'How do I fix my bike?',
];

describe('many concurrent clients', () => {
  test('64 concurrent streams on all wires each get the same text as alone', async () => {
    const alone = new Map<string, string>();
    const [first] = wires;
    for (const question of questions) alone.set(question, await streamed(first, question));
    expect(new Set(alone.values()).size).toBe(questions.length);
    const together = await Promise.all(
      Array.from({ length: 64 }, async (_, at) => {
        const question = questions[at % questions.length] ?? '';
        const wire = wires[(at * 7) % wires.length] ?? first;
        return { wire: wire.path, question, text: await streamed(wire, question) };
      }),
    );
    expect(new Set(together.map(({ wire }) => wire)).size).toBe(wires.length);
    for (const { wire, question, text } of together)
      expect([wire, text]).toEqual([wire, alone.get(question)]);
    await untilIdle();
  });

  test('clients that disconnect mid-stream free their slots', async () => {
    const controllers = Array.from({ length: 6 }, () => new AbortController());
    await Promise.all(
      controllers.map(async (controller) => {
        const body = { prompt: 'Once upon a time', n_predict: 900, ignore_eos: true, stream: true };
        const response = await post('/completion', body, controller.signal);
        await response.body?.getReader().read();
      }),
    );
    expect(await busy()).toBeGreaterThan(0);
    for (const controller of controllers) controller.abort();
    await untilIdle();
    expect((await post('/completion', { prompt: 'a', n_predict: 2 })).status).toBe(200);
  });

  test('a stalled reader does not block others', async () => {
    // Log probabilities of as many answers as there are slots: more than sockets buffer.
    const body = JSON.stringify({
      prompt: Array.from({ length: 8 }, (_, at) => `Once upon a time ${at}`),
      n_predict: 900,
      ignore_eos: true,
      stream: true,
      n_probs: 20,
    });
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => undefined);
    const begun = new Promise<void>((resolve) => {
      socket.once('data', () => {
        socket.pause();
        resolve();
      });
    });
    const head = 'POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json';
    socket.write(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await begun;
    const answers = await Promise.all(questions.map((question) => streamed(wires[0], question)));
    for (const text of answers) expect(text).not.toBe('');
    socket.destroy();
    await untilIdle();
  });
});
