import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { agentEvent, type AgentEvent } from '../../src/agent/shapes/agent-event.ts';
import { serve } from './local-server.ts';

export interface Delivery {
  readonly path: string;
  readonly webhookId: string;
  readonly event: AgentEvent;
  readonly headers: IncomingMessage['headers'];
  readonly status: number;
}

type Answer =
  | number
  | { readonly status: number; readonly headers: Record<string, string> }
  | 'hang'
  | 'reset';

/** A receiver of webhooks that verifies each signature by the specification's text, with Node's crypto alone. */
export async function webhookReceiver(
  secret: string,
  answer: (event: AgentEvent, path: string) => Answer | Promise<Answer> = () => 204,
) {
  const deliveries: Delivery[] = [];
  const faults: string[] = [];
  const server = await serve((request, response) => {
    void (async () => {
      const body = await text(request);
      const fault = webhookFault(request.headers, body, secret);
      if (fault !== undefined) faults.push(fault);
      const event = agentEvent.parse(JSON.parse(body));
      const path = request.url ?? '';
      const answered = await answer(event, path);
      const status =
        typeof answered === 'object' ? answered.status : typeof answered === 'number' ? answered : 0;
      deliveries.push({
        path,
        webhookId: String(request.headers['webhook-id']),
        event,
        headers: request.headers,
        status,
      });
      if (answered === 'hang') return;
      if (answered === 'reset') {
        request.socket.destroy();
        return;
      }
      response.writeHead(status, typeof answered === 'object' ? answered.headers : {});
      response.end(status === 204 ? undefined : 'thanks');
    })();
  });
  return {
    url: server.url,
    deliveries,
    faults,
    /** Events that were accepted, in the order of their acceptance. */
    accepted: () => deliveries.filter(({ status }) => status >= 200 && status < 300),
    close: () => server.close(),
  };
}

/** Verifies as a receiver does that has read the Standard Webhooks specification. @returns what is wrong */
export function webhookFault(
  headers: IncomingMessage['headers'],
  body: string,
  secret: string,
): string | undefined {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string')
    return 'a header is missing';
  if (id.includes('.') || !/^\d+$/.test(timestamp)) return `not as specified: ${id} ${timestamp}`;
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return `too old: ${timestamp}`;
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`, 'utf8').digest();
  const isValid = signatures.split(' ').some((one) => {
    const [version, encoded = ''] = one.split(',');
    const given = Buffer.from(encoded, 'base64');
    return version === 'v1' && given.length === expected.length && timingSafeEqual(given, expected);
  });
  return isValid ? undefined : `the signature is wrong: ${signatures}`;
}

/** What is wrong with the order of the accepted events: those of one subject must come in the order of their ids. */
export function orderFaults(accepted: readonly Delivery[]): string[] {
  const last = new Map<string, number>();
  return accepted.flatMap(({ event: { id, data } }) => {
    const before = last.get(data.id) ?? -1;
    last.set(data.id, Math.max(id, before));
    return id < before ? [`${data.id}: ${id} after ${before}`] : [];
  });
}
