import { readdirSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Usage } from '../../src/wires/core/types.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { openaiChat } from '../../src/wires/chat/upstream.ts';
import { google } from '../../src/wires/google/index.ts';
import { anthropicMessages } from '../../src/wires/messages/upstream.ts';
import { openaiResponses } from '../../src/wires/responses/upstream.ts';
import { type CallerWire, wires } from '../support/gateway/asks.ts';
import { cassettesPath, interactions, type Recording, recording } from '../support/gateway/cassettes.ts';
import { type Clients, clientsOf } from '../support/gateway/clients.ts';
import { framesOf } from '../support/gateway/frames.ts';
import { type Customer, gatewayWorld, nanoOf } from '../support/gateway/world.ts';
import { describeShared, sharedPath } from '../support/shared.ts';

let world: Awaited<ReturnType<typeof gatewayWorld>>;
let customer: Customer;
let clients: Clients;

/** Who recorded it, which model of the gateway stands for it, and the wires that callers may ask it on. */
const folders = [
  {
    folder: 'anthropic',
    model: 'claude',
    upstream: anthropicMessages,
    on: ['chat', 'responses', 'messages'],
  },
  { folder: 'deepseek-chat', model: 'copy', upstream: openaiChat, on: ['chat', 'responses'] },
  { folder: 'google', model: 'gemini', upstream: google, on: ['chat', 'responses'] },
  { folder: 'mistral', model: 'copy', upstream: openaiChat, on: ['chat', 'responses'] },
  { folder: 'openai-compatible-chat', model: 'copy', upstream: openaiChat, on: ['chat', 'responses'] },
  { folder: 'openai-responses', model: 'responses', upstream: openaiResponses, on: ['chat', 'responses'] },
] as const satisfies readonly { on: readonly CallerWire[]; [more: string]: unknown }[];
type Upstream = (typeof folders)[number]['upstream'];

/** Features without a price in the rate cards; they are refused before the provider is called. */
const unpriced = /audio|web-search/;
/** Speech to text is none of the gateway's. */
const foreign = /transcription/;

const recordings = () =>
  folders.flatMap(({ folder, ...how }) =>
    readdirSync(sharedPath(cassettesPath(folder)) ?? '')
      .filter((file) => !foreign.test(file) && /\.(json|chunks\.txt|sse)$/.test(file))
      .map((file) => {
        const name = `${folder}/${file.replace(/\.(json|chunks\.txt|sse)$/, '')}`;
        const stream = !file.endsWith('.json');
        return { title: `${folder}/${file}`, name, stream, ...how };
      }),
  );

/** Some files of Anthropic and OpenAI hold several answers, one after the other. */
function firstOf(recorded: Recording): Recording {
  if (typeof recorded.body === 'string') return recorded;
  const ends = ['message_stop', 'response.completed'];
  const last = recorded.body.findIndex(({ event }) => ends.includes(event ?? ''));
  return last < 0 ? recorded : { ...recorded, body: recorded.body.slice(0, last + 1) };
}

/** As callers get it: an answer begins once. */
const bytesOf = ({ body }: Recording): string =>
  typeof body === 'string'
    ? body
    : body
        .filter(({ event }, place) => event !== 'message_start' || place === 0)
        .map(({ raw }) => raw)
        .join('');

/** What the recording says, by the reader of its wire. */
function eventsOf({ body, status }: Recording, upstream: Upstream): AnswerEvent[] {
  if (typeof body === 'string') {
    if (status >= 300) throw new UpstreamFailure(upstream.failure(status, body, {}));
    return upstream.answer(body);
  }
  const reader = upstream.reader();
  return [...body.flatMap((frame) => reader.push(frame)), ...reader.end()];
}

const ends: Readonly<Record<'chat' | 'responses' | 'messages', RegExp>> = {
  chat: /data: \[DONE\]\n\n$/,
  responses: /event: response\.(completed|incomplete)\ndata: .*\n\n(data: \[DONE\]\n\n)?$/,
  messages: /event: message_stop\ndata: .*\n\nevent: svc_receipt\ndata: .*\n\n$/,
};

const costOf = ({ fresh, cacheWrite, cacheWrite1h, cacheRead, output }: Usage): bigint =>
  nanoOf({ fresh, cacheWrite, cacheWrite1h, cacheRead, output });

describeShared('recorded traffic through the gateway', [cassettesPath()], () => {
  beforeAll(async () => {
    world = await gatewayWorld({ limits: { retries: 0 } });
    customer = await world.customer();
    clients = clientsOf(world.url, customer);
  });
  afterEach(() => clients.verify());
  afterAll(async () => {
    const wrong = [...(await world.witness.faults()), ...world.faults];
    await world.close();
    expect(wrong).toEqual([]);
  });

  /** @param send judges what comes by the published schema; what passes as it came is its provider's affair */
  const ask = async (path: string, body: object, send = clients.fetch) => {
    const response = await send(world.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    const paid = () => world.witness.row(response.headers.get('x-svc-request-id') ?? '');
    return { status: response.status, headers: response.headers, text, paid };
  };

  it.each(recordings())('$title', async ({ name, stream, model, upstream, on }) => {
    const recorded = firstOf(recording(name, stream));
    const endAfter = typeof recorded.body === 'string' ? {} : { endAfter: recorded.body.length };
    let events: AnswerEvent[] = [];
    let failure: Error | undefined;
    try {
      events = eventsOf(recorded, upstream);
      failure = events.find((event) => event.type === 'failure')?.error;
    } catch (error) {
      failure = error as UpstreamFailure;
    }
    const usage = events.findLast((event) => event.type === 'usage')?.usage;
    for (const wire of on) {
      world.provider.script([{ cassette: name, ...endAfter }]);
      const { path, body } = wires[wire];
      const passes = wire === 'messages' || (wire === 'responses' && model === 'responses');
      const { status, text, paid } = await ask(path, body(model, stream), passes ? fetch : clients.fetch);
      const row = await paid();
      if (failure) {
        expect(text, wire).toMatch(/"error":\{/);
        expect({ outcome: row.outcome, cost: row.cost }, wire).toEqual({ outcome: 'failed', cost: 0n });
        continue;
      }
      expect({ status, outcome: row.outcome }, `${wire}: ${text.slice(0, 400)}`).toEqual({
        status: 200,
        outcome: 'completed',
      });
      if (stream) expect(text, wire).toMatch(ends[wire]);
      if (stream) framesOf(text);
      else JSON.parse(text);
      if (passes) expect(text.startsWith(bytesOf(recorded)), wire).toBe(true);
      if (usage) expect(row.cost, wire).toBe(costOf(usage));
      else expect(row.cost, wire).toBeGreaterThan(0n);
    }
  });

  const exchanges = () =>
    readdirSync(sharedPath(cassettesPath('openai')) ?? '')
      .filter((file) => file.endsWith('.yaml'))
      .flatMap((file) => {
        const name = `openai/${file.replace('.yaml', '')}`;
        return interactions(name).map((recorded, exchange) => ({
          title: `${name} ${exchange}`,
          name,
          exchange,
          recorded,
        }));
      })
      .filter(({ recorded }) => /^\/(chat\/completions|completions|embeddings)$/.test(recorded.path));

  it.each(exchanges())('$title', async ({ name, exchange, recorded }) => {
    world.provider.script([{ cassette: name, exchange }]);
    const before = world.provider.requests.length;
    const request = JSON.parse(recorded.request) as Record<string, unknown>;
    const { status, headers, text, paid } = await ask(`/v1${recorded.path}`, { ...request, model: 'copy' });
    if (recorded.status >= 400) {
      expect(status).toBeGreaterThanOrEqual(400);
      expect(text).toMatch(/^\{"error":\{"message":"/);
      return expect(headers.get('x-svc-cost-nanousd')).toBe('0');
    }
    if (unpriced.test(name))
      return expect({ status, text }).toEqual({
        status: 400,
        text: expect.stringContaining('"unsupported_parameter"') as string,
      });
    expect(status, text.slice(0, 400)).toBe(200);
    expect(world.provider.requests.length).toBe(before + 1);
    const row = await paid();
    const reported = [...recorded.response.matchAll(/"usage":\s*(\{(?:[^{}]|\{[^{}]*\})*\})/g)].at(-1)?.[1];
    if (reported === undefined) return expect(row.cost).toBeGreaterThan(0n);
    const {
      prompt_tokens: prompt,
      completion_tokens: output = 0,
      prompt_tokens_details: details,
    } = JSON.parse(reported) as {
      prompt_tokens: number;
      completion_tokens?: number;
      prompt_tokens_details?: { cached_tokens: number };
    };
    const cacheRead = details?.cached_tokens ?? 0;
    expect(row.cost).toBe(nanoOf({ fresh: prompt - cacheRead, cacheRead, output }));
  });
});
