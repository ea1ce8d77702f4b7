import { WebSocket } from 'ws';
import { until } from './until.ts';

/** A message of a WebSocket. */
export type SocketMessage = Record<string, unknown>;

/** Whether a message ends a turn. */
export const isTerminal = ({ type }: SocketMessage): boolean =>
  ['error', 'response.completed', 'response.incomplete', 'response.failed'].includes(String(type));

/** Connects to the WebSocket of `/v1/responses` and collects its messages. Rejects with the status of a refusal. */
export async function connectSocket(url: string, options: object = {}) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, options);
  const messages: SocketMessage[] = [];
  const closed = Promise.withResolvers<number>();
  socket.on('message', (data: Buffer) => messages.push(JSON.parse(data.toString()) as SocketMessage));
  socket.on('close', (code) => closed.resolve(code));
  await new Promise<void>((resolve, reject) => {
    socket.once('open', () => resolve());
    socket.once('error', reject);
    socket.once('unexpected-response', (_, response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => reject(new Error(`${response.statusCode} ${text}`)));
    });
  });
  let turns = 0;
  const next = async () => {
    turns++;
    await until(() => messages.filter(isTerminal).length >= turns);
    return messages.filter(isTerminal)[turns - 1] as SocketMessage;
  };
  const send = (body: object | string) => socket.send(typeof body === 'string' ? body : JSON.stringify(body));
  return {
    socket,
    messages,
    closed: closed.promise,
    send,
    /** The message that ends the next turn. */
    next,
    /** Begins a turn. @returns the message that ends it */
    ask: async (body: object) => {
      send({ type: 'response.create', ...body });
      return await next();
    },
  };
}
