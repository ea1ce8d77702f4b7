import type { EventFeed, FeedItem } from '../../agent/event-feed.ts';
import { agentEvent, eventSelectors } from '../../agent/shapes/agent-event.ts';
import { webhookList } from '../../agent/shapes/webhook.ts';
import type { Webhooks } from '../../agent/webhooks/webhooks.ts';
import { hostEnvelope, type HttpError } from '../../http/error.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { eventStreamType, streamResponse } from '../../http/stream.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { hostError } from '../error-schema.ts';
import { toHttpError } from './plane.ts';
import { createReaderSignal } from './reader-signal.ts';

interface EventsRoutesDeps {
  readonly events: Pick<EventFeed, 'read'>;
  readonly webhooks: Pick<Webhooks, 'list'>;
}

const errorResponse = (description: string) => ({ description, content: { 'application/json': hostError } });
/** How long a client waits before it connects again. */
const retryMs = 1000;

/** Routes for the feed of events, and the state of the endpoints that events are posted to. */
export function eventsRoutes({ events, webhooks }: EventsRoutesDeps): Route[] {
  const streamEvents = defineRoute({
    method: 'GET',
    path: '/agent/v1/events',
    operationId: 'streamEvents',
    summary: 'Follow tasks, runs and pending changes',
    description:
      'Server-sent events of everything that happens to tasks, runs and pending changes, on all hosts of the database. An event is ' +
      'stored with what it tells, and is kept for 30 days (200,000 events). A client that connects again with the ' +
      'last id that it received gets every event once; the ids of events that are not sent are skipped. Without an id: events ' +
      'from now on. Comments are sent while nothing happens.',
    query: {
      after: 'The last id that you received.',
      types: `Separated by commas: ${eventSelectors.join(', ')}. Absent: all.`,
    },
    headers: { 'Last-Event-ID': 'The last id that you received; it takes precedence over `after`.' },
    responses: {
      200: { description: 'The events.', content: { 'text/event-stream': agentEvent } },
      400: errorResponse('The id is not a number, or there is no such type.'),
      410: errorResponse('Events after that id are not kept any more, or there was no such event.'),
    },
    async handle({ query, headers, signal, asHttpError }) {
      const after =
        readId('Last-Event-ID', headers.get('last-event-id')) ?? readId('after', query.get('after'));
      const items = events.read({ after, types: readTypes(query), signal: createReaderSignal(signal) });
      return await streamResponse(framesOf(items, signal), {
        contentType: eventStreamType,
        failureFrame: (error) => failureFrame(error, asHttpError),
      });
    },
  });

  const listWebhooks = defineRoute({
    method: 'GET',
    path: '/agent/v1/webhooks',
    operationId: 'listWebhooks',
    summary: 'List the endpoints that events are posted to, with their state',
    responses: {
      200: {
        description: 'The endpoints of the configuration, in its order.',
        content: { 'application/json': webhookList },
      },
    },
    handle: async () => Response.json({ webhooks: await webhooks.list() }),
  });
  return [streamEvents, listWebhooks];
}

async function* framesOf(
  items: AsyncGenerator<FeedItem, void, undefined>,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  try {
    let isFirst = true;
    for await (const { id, event } of items) {
      if (event) yield `id: ${id}\ndata: ${JSON.stringify(event)}\n\n`;
      // An id without data is where the client goes on after a lost connection; it is no event.
      else yield `${isFirst ? `retry: ${retryMs}\n` : ''}id: ${id}\n: nothing new\n\n`;
      isFirst = false;
    }
  } catch (error) {
    // The host stops: the client connects again.
    if (!signal.aborted) throw error;
  }
}

const failureFrame = (error: unknown, asHttpError: (error: unknown) => HttpError): string =>
  `event: error\ndata: ${JSON.stringify(hostEnvelope(asHttpError(toHttpError(error))))}\n\n`;

function readId(name: string, text: string | null): number | undefined {
  if (text === null || text === '') return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw invalidBodyError([
    { path: name, message: `expected the id of an event, a whole number, got '${text.slice(0, 40)}'` },
  ]);
}

function readTypes(query: URLSearchParams): readonly string[] | undefined {
  const text = query.get('types');
  if (text === null) return undefined;
  const types = text.split(',').map((type) => type.trim());
  const unknown = types.find((type) => !eventSelectors.includes(type));
  if (unknown === undefined) return types;
  throw invalidBodyError([
    {
      path: 'types',
      message: `expected some of ${eventSelectors.join(', ')}, got '${unknown.slice(0, 40)}'`,
    },
  ]);
}
