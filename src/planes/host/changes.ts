import { z } from 'zod';
import { waitForChange } from '../../agent/wait-for-change.ts';
import type { ChangeBus } from '../../changes/change-bus.ts';
import { planeOfTopic, type Topic, topics } from '../../changes/topics.ts';
import { hostEnvelope, HttpError } from '../../http/error.ts';
import { type Caller, defineRoute, type Route } from '../../http/route.ts';
import { eventStreamType, streamResponse } from '../../http/stream.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { hostError } from '../error-schema.ts';
import { readScopes } from '../scopes.ts';

export interface ChangesOptions {
  readonly bus: ChangeBus;
  readonly endpointId: string;
  /** Aborted when the host begins to stop. */
  readonly draining?: AbortSignal | undefined;
  /** How long a reader gets nothing at most, in ms; then the caller is checked again, too. */
  readonly heartbeatMs?: number;
}

const defaultHeartbeatMs = 15_000;
/** How long a client may stop reading, in ms. */
const stallTimeoutMs = 30_000;
const maxReaders = 512;
/** Limit for one peer, so that no peer keeps others out. */
const maxReadersOfPeer = 64;
/** How long a client waits before it connects again. */
const retryMs = 1000;

/** Planes whose routes need the bearer token on loopback, too. */
const gatedPlanes: ReadonlySet<string> = new Set(['recorder', 'observe']);

const topic = z.enum(topics as [Topic, ...Topic[]]);
const changeEvent = z
  .union([
    z
      .object({ endpoint_id: z.string(), resumed: z.boolean(), topics: z.array(topic) })
      .describe(
        'Event `hello`, the first: the topics that the caller may read. Unless `resumed`, changes may have been missed.',
      ),
    z
      .object({ changes: z.array(z.object({ topic, id: z.string().optional() })) })
      .describe('Event `change`. Without an id: any of the topic.'),
    z.object({}).describe('Event `reset`: the reader was too slow, and missed changes.'),
  ])
  .meta({ id: 'HostChange' });

/** The stream that tells what changes on the host. */
export function changesRoute({
  bus,
  endpointId,
  draining,
  heartbeatMs = defaultHeartbeatMs,
}: ChangesOptions): Route {
  return defineRoute({
    method: 'GET',
    path: '/host/v1/events',
    operationId: 'followChanges',
    summary: 'Follow what changes on the host',
    description:
      'Server-sent events with topics and ids, without content: read what changed by its route. Equal changes within 100 ms are one. A client that connects again with its last id misses none of the last 4,096 changes; `hello` says whether it missed some. Comments are sent while nothing changes. A topic is for callers that may read its plane. The stream ends when the token or session does, and when it may not read a topic any more.',
    query: { after: 'The last id that you received.' },
    headers: { 'Last-Event-ID': 'The last id that you received; it takes precedence over `after`.' },
    responses: {
      200: { description: 'The changes.', content: { 'text/event-stream': changeEvent } },
      400: { description: 'It is not an id.', content: { 'application/json': hostError } },
      503: {
        description: `${maxReaders} clients, or ${maxReadersOfPeer} of the same peer, follow already.`,
        content: { 'application/json': hostError },
      },
    },
    async handle({ query, headers, signal: requestSignal, by, authorize, asHttpError }) {
      const after =
        readId('Last-Event-ID', headers.get('last-event-id')) ?? readId('after', query.get('after'));
      if (bus.readers >= maxReaders)
        throw tooManyStreams(`${maxReaders} clients follow the changes of this host`);
      if (by.startsWith('peer:') && bus.readersOf(by) >= maxReadersOfPeer)
        throw tooManyStreams(`${maxReadersOfPeer} clients of this peer follow the changes`);
      // Before anything is awaited, so that requests at the same time are counted.
      const close = bus.open(by);
      const signal = draining ? AbortSignal.any([requestSignal, draining]) : requestSignal;
      const frames = framesOf({
        bus,
        endpointId,
        after,
        readTopics: () => readableTopics(authorize),
        heartbeatMs,
        signal,
        close,
      });
      return await streamResponse(frames, {
        contentType: eventStreamType,
        stallTimeoutMs,
        failureFrame: (error) => frame('error', hostEnvelope(asHttpError(error))),
      });
    },
  });
}

const tooManyStreams = (which: string): HttpError =>
  new HttpError(503, 'too_many_streams', `${which} already; close some.`, {
    headers: { 'retry-after': '5' },
  });

/** The topics whose planes the caller may read. */
async function readableTopics(authorize: (gate?: 'bearer') => Promise<Caller>): Promise<readonly Topic[]> {
  const caller = await authorize();
  const withBearer = await authorize('bearer').catch(() => undefined);
  return topics.filter((one) => {
    const plane = planeOfTopic[one];
    const needed = readScopes(plane);
    const reader = gatedPlanes.has(plane) ? withBearer : caller;
    if (!reader || needed === 'all') return reader !== undefined && reader.scope === undefined;
    return (
      needed === 'none' || reader.scope === undefined || needed.some((scope) => reader.scope?.includes(scope))
    );
  });
}

interface FrameOptions extends Pick<ChangesOptions, 'bus' | 'endpointId'> {
  readonly after: string | undefined;
  readonly readTopics: () => Promise<readonly Topic[]>;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
  readonly close: () => void;
}

async function* framesOf({
  bus,
  endpointId,
  after,
  readTopics,
  heartbeatMs,
  signal,
  close,
}: FrameOptions): AsyncGenerator<string, void, undefined> {
  let isBegun = false;
  try {
    const readable = await readTopics();
    const resumedAt = after === undefined ? undefined : bus.seqOf(after);
    let seq = resumedAt ?? bus.lastSeq;
    const hello = { endpoint_id: endpointId, resumed: resumedAt !== undefined, topics: readable };
    isBegun = true;
    yield `retry: ${retryMs}\n${frame('hello', hello, bus.idOf(seq))}`;
    let checkAtMs = performance.now() + heartbeatMs;
    for (;;) {
      // Before the list is read, so that no change falls between.
      const { next } = bus;
      const found = bus.since(seq);
      seq = bus.lastSeq;
      const changes = found?.filter((change) => readable.includes(change.topic));
      if (!changes) yield frame('reset', {}, bus.idOf(seq));
      else if (changes.length > 0)
        yield frame(
          'change',
          { changes: changes.map(({ topic: one, id }) => ({ topic: one, id })) },
          bus.idOf(seq),
        );
      if (performance.now() >= checkAtMs) {
        const stillReadable = await readTopics();
        // The client connects again, and learns what it may read.
        if (readable.some((one) => !stillReadable.includes(one))) return;
        checkAtMs = performance.now() + heartbeatMs;
        yield ': nothing new\n\n';
      }
      if (bus.lastSeq > seq) continue;
      await waitForChange(next, Math.max(0, checkAtMs - performance.now()), signal);
    }
  } catch (error) {
    // The client is gone or connects again, because the host stops or the token has ended.
    if (!isBegun || (!signal.aborted && !(error instanceof HttpError && error.status < 500))) throw error;
  } finally {
    close();
  }
}

const frame = (event: string, data: unknown, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

function readId(name: string, text: string | null): string | undefined {
  if (text === null || text === '') return undefined;
  if (/^[0-9a-f]{12}-\d{1,15}$/.test(text)) return text;
  throw invalidBodyError([
    { path: name, message: `expected the id of an event of this stream, got '${text.slice(0, 40)}'` },
  ]);
}
