import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { WireKind } from '../../../src/wires/providers.ts';
import type { SseFrame } from '../../../src/wires/core/wire.ts';
import { serve } from '../local-server.ts';
import { recording } from './cassettes.ts';
import { anthropicSpeech } from './speech-anthropic.ts';
import { googleEmbeddingsSpeech, googleSpeech } from './speech-google.ts';
import { chatSpeech, completionsSpeech, embeddingsSpeech } from './speech-openai.ts';
import { responsesSpeech } from './speech-responses.ts';
import { type Say, type Speech, resolveAnswer } from './speech.ts';

/** The reply to one request: `say` (the default), a `cassette`, an error, or bytes; and how it is sent. */
export interface ProviderReply {
  readonly say?: Say;
  /** Recorded traffic, such as `google/google-text`: its stream for streaming requests, its body for others. */
  readonly cassette?: string;
  /** The exchange of a cassette that has several; the first by default. */
  readonly exchange?: number;
  /** An error with this status, in the wire's format. Below 300: the reply of `say` with that status. */
  readonly status?: number;
  /** Message of the error. `{key}` is replaced by the beginning of the received credential, as providers echo it. */
  readonly message?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent unchanged, for any request. */
  readonly raw?: { readonly contentType?: string; readonly body: string | Buffer };
  /** Frames of another answer before those of `say`; that answer breaks off after this many frames. */
  readonly before?: { readonly say: Say; readonly frames: number };
  /** Added to the stream after all its frames (a fault within the stream, malformed lines). */
  readonly extra?: string;

  /** Delay before the head, and before each frame except the first. */
  readonly delayMs?: number;
  readonly frameMs?: number;
  /** Awaited before the n-th frame: holds a stream until the test says so. */
  readonly hold?: (frame: number) => Promise<void> | undefined;
  /** Destroys the socket after this many frames; 0: after the head. For a body: in its middle. `'usage'`: after the usage. */
  readonly cutAfter?: number | 'usage';
  /** Ends the stream normally after this many frames. */
  readonly endAfter?: number;
  /** Goes silent after this many frames, and never ends; `'head'`: before the head. */
  readonly stallAfter?: number | 'head';
  /** Writes chunks of random length, cut anywhere, also within a character; seeded. */
  readonly split?: number;
  readonly crlf?: boolean;
  /** Applied if the request accepts it. */
  readonly gzip?: boolean;
  /** Destroys the socket without a head. */
  readonly refuse?: boolean;
}

export interface ProviderRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The received bytes, unchanged. */
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly model: string;
  readonly stream: boolean;
  /** The credential, from any of the headers that may hold it. */
  readonly key: string | undefined;
}

/** Replies in order, the last one repeatedly; or a function of the request. */
export type ProviderScript =
  | readonly ProviderReply[]
  | ((request: ProviderRequest, index: number) => ProviderReply | Promise<ProviderReply>);

/** A fake provider on a local port that serves all wires, by path. It makes no network requests. */
export interface FakeProvider {
  /** `http://127.0.0.1:<port>`, without a version. */
  readonly url: string;
  /** For `base_url`. */
  readonly baseUrl: (wire: WireKind) => string;
  /** Requests for answers, without those for model lists. */
  readonly requests: readonly ProviderRequest[];
  /** All other requests: model lists, health. */
  readonly lookups: readonly ProviderRequest[];
  /** Answers whose reader disconnected before the end. */
  readonly left: number;
  /** Running answers. */
  readonly open: number;
  /** Replaces the script; its count restarts at 0. */
  script(next: ProviderScript): void;
  close(): Promise<void>;
}

const speeches: readonly (readonly [ending: RegExp, speech: Speech])[] = [
  [/\/chat\/completions$/, chatSpeech],
  [/\/completions$/, completionsSpeech],
  [/\/embeddings$/, embeddingsSpeech],
  [/\/responses$/, responsesSpeech],
  [/\/messages$/, anthropicSpeech],
  [/:(?:generateContent|streamGenerateContent)$/, googleSpeech],
  [/:batchEmbedContents$/, googleEmbeddingsSpeech],
];

/**
 * @param options `keys`: the credentials that are good; all others get a 401 that echoes some of what came.
 * Undefined: all are. `models`: the ids that `GET .../models` lists
 */
export async function fakeProvider(
  script: ProviderScript = [{ say: { text: 'Hello.' } }],
  { keys, models = ['model'] }: { keys?: readonly string[]; models?: readonly string[] } = {},
): Promise<FakeProvider> {
  const requests: ProviderRequest[] = [];
  const lookups: ProviderRequest[] = [];
  let current = script;
  let count = 0;
  let left = 0;
  let open = 0;

  const handle = async (incoming: IncomingMessage, response: ServerResponse) => {
    const request = await read(incoming);
    const speech = speeches.find(([ending]) => ending.test(request.path))?.[1];
    if (keys && !keys.includes(request.key ?? ''))
      return send(response, 401, (speech ?? chatSpeech).error(401, fill(wrongKey, request)));
    if (incoming.method === 'GET') {
      lookups.push(request);
      return send(response, 200, listing(request.path, models));
    }
    if (!speech) return send(response, 404, { error: { message: `no such path ${request.path}` } });
    requests.push(request);
    const index = count++;
    const reply =
      typeof current === 'function'
        ? await current(request, index)
        : (current[Math.min(index, current.length - 1)] ?? {});
    return answer(reply, speech, request, response);
  };
  const server = await serve((incoming, response) => {
    open += 1;
    response.on('close', () => {
      open -= 1;
      if (!response.writableFinished) left += 1;
    });
    handle(incoming, response).catch((error: unknown) => {
      // An error of the test itself is returned in the answer.
      if (response.headersSent) response.destroy();
      else send(response, 599, { error: { message: String(error) } });
    });
  });
  return {
    url: server.url,
    baseUrl: (wire) => `${server.url}/${wire === 'google' ? 'v1beta' : 'v1'}`,
    requests,
    lookups,
    get left() {
      return left;
    },
    get open() {
      return open;
    },
    script(next) {
      current = next;
      count = 0;
    },
    close: () => server.close(),
  };
}

const wrongKey = 'Incorrect API key provided: {key}. You can find your API key in your account.';

/** Masks a key as providers do: its ends visible, the middle starred; and the longest part that any of them shows. */
const fill = (message: string, { key = '' }: ProviderRequest): string =>
  message.replaceAll('{key}', key.length > 12 ? `${key.slice(0, 8)}********${key.slice(-4)}` : key);

const listing = (path: string, models: readonly string[]): object => {
  if (path.endsWith('/health')) return { status: 'ok' };
  const ids = models.map((id) => ({ id, object: 'model', created: 0, owned_by: 'test' }));
  return path.includes('/v1beta/')
    ? { models: models.map((id) => ({ name: `models/${id}` })) }
    : { object: 'list', data: ids };
};

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

async function read(incoming: IncomingMessage): Promise<ProviderRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  const url = new URL(incoming.url ?? '/', 'http://provider');
  const body = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>;
  const { headers } = incoming;
  const header = (name: string) => headers[name] as string | undefined;
  return {
    method: incoming.method ?? '',
    path: decodeURIComponent(url.pathname),
    headers,
    text,
    body,
    model:
      /\/models\/(.+):\w+$/.exec(decodeURIComponent(url.pathname))?.[1] ?? ((body['model'] ?? '') as string),
    stream: body['stream'] === true || url.pathname.endsWith(':streamGenerateContent'),
    key:
      header('authorization')?.replace(/^Bearer /, '') ??
      header('x-api-key') ??
      header('x-goog-api-key') ??
      header('api-key'),
  };
}

async function answer(
  reply: ProviderReply,
  speech: Speech,
  request: ProviderRequest,
  response: ServerResponse,
): Promise<void> {
  await sleep(reply.delayMs);
  if (reply.refuse) return void response.destroy();
  if (reply.stallAfter === 'head') return;
  const { status, contentType, body } = contentOf(reply, speech, request);
  const accepted = request.headers['accept-encoding']?.includes('gzip') === true;
  const streamed = typeof body !== 'string' && !Buffer.isBuffer(body);
  const packed = reply.gzip === true && accepted && !streamed;
  response.writeHead(status, {
    'content-type': contentType,
    ...(packed ? { 'content-encoding': 'gzip' } : {}),
    ...reply.headers,
  });
  response.flushHeaders();
  if (!streamed) {
    const bytes = packed ? gzipSync(body) : Buffer.from(body);
    if (reply.stallAfter !== undefined) return;
    if (reply.cutAfter === undefined) return void response.end(bytes);
    await write(response, bytes.subarray(0, bytes.length >> 1), undefined);
    return void response.destroy();
  }
  const cutAfter = reply.cutAfter === 'usage' ? body.filter(saysMore).length : reply.cutAfter;
  const random = reply.split === undefined ? undefined : mulberry(reply.split);
  for (const [index, { raw }] of body.entries()) {
    if (index === cutAfter) return void response.destroy();
    if (index === reply.stallAfter) return;
    if (index === reply.endAfter) return void response.end();
    if (index > 0) await sleep(reply.frameMs);
    await reply.hold?.(index);
    if (response.destroyed) return;
    await write(response, Buffer.from(reply.crlf ? raw.replaceAll('\n', '\r\n') : raw), random);
  }
  if (body.length === cutAfter) return void response.destroy();
  if (body.length === reply.stallAfter) return;
  response.end();
}

/** Whether a frame holds content: the last frame of the chat and messages wires marks only the end. */
const saysMore = ({ data, event }: SseFrame): boolean => data !== '[DONE]' && event !== 'message_stop';

function contentOf(reply: ProviderReply, speech: Speech, request: ProviderRequest) {
  const json = 'application/json';
  if (reply.raw)
    return {
      status: reply.status ?? 200,
      contentType: reply.raw.contentType ?? (request.stream ? 'text/event-stream' : json),
      body: reply.raw.body,
    };
  if (reply.cassette !== undefined) {
    const recorded = recording(reply.cassette, request.stream, reply.exchange);
    return {
      ...recorded,
      body: typeof recorded.body === 'string' ? recorded.body : extended(recorded.body, reply),
    };
  }
  const { status = 200 } = reply;
  if (status >= 300) {
    const message = fill(reply.message ?? `scripted ${status}`, request);
    return { status, contentType: json, body: JSON.stringify(speech.error(status, message)) };
  }
  const say = resolveAnswer(reply.say ?? {}, request.model);
  return request.stream
    ? {
        status,
        contentType: 'text/event-stream',
        body: [...spliced(speech, reply, request), ...extended(speech.frames(say, request.body), reply)],
      }
    : { status, contentType: json, body: JSON.stringify(speech.body(say, request.body)) };
}

const spliced = (speech: Speech, { before }: ProviderReply, request: ProviderRequest): readonly SseFrame[] =>
  before ? speech.frames(resolveAnswer(before.say, request.model), request.body).slice(0, before.frames) : [];

const extended = (frames: readonly SseFrame[], { extra }: ProviderReply): readonly SseFrame[] =>
  extra === undefined ? frames : [...frames, { event: undefined, data: extra, raw: extra }];

/** Resolves when the socket took it; in pieces where `random` is given, each of them a packet of its own. */
async function write(response: ServerResponse, bytes: Buffer, random: (() => number) | undefined) {
  const put = (piece: Buffer) =>
    new Promise<void>((resolve) => {
      response.once('close', resolve);
      response.write(piece, () => {
        response.off('close', resolve);
        resolve();
      });
    });
  if (!random) return put(bytes);
  for (let at = 0; at < bytes.length && !response.destroyed; ) {
    const length = 1 + Math.floor(random() * 24);
    await put(bytes.subarray(at, at + length));
    at += length;
  }
}

const sleep = (ms = 0) =>
  ms === 0 ? Promise.resolve() : new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Deterministic random numbers in [0, 1). */
function mulberry(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
