import { connect, type Socket } from 'node:net';

/** Sends bytes, keeps its write side open, and gives all that comes until the other side ends. */
export const sendRaw = (port: number, text: string): Promise<string> =>
  conversation(port, (socket) => void socket.write(text));

/** The same, with the write side shut behind the bytes, as `nc` does. */
export const sendAndShut = (port: number, text: string): Promise<string> =>
  conversation(port, (socket) => void socket.end(text));

function conversation(port: number, begin: (socket: Socket) => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => begin(socket));
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => {
      received += text;
    });
    socket.on('end', () => {
      socket.destroy();
      resolve(received);
    });
    socket.on('error', reject);
  });
}

/** An HTTP answer as it came. */
export function readRaw(received: string) {
  const [head = '', ...rest] = received.split('\r\n\r\n');
  const [line = '', ...fields] = head.split('\r\n');
  const headers = new Map(
    fields.map((field) => {
      const at = field.indexOf(':');
      return [field.slice(0, at).toLowerCase(), field.slice(at + 1).trim()] as const;
    }),
  );
  return { line, status: Number(line.split(' ')[1]), headers, body: rest.join('\r\n\r\n') };
}

/** A POST of JSON, as bytes. */
export function postBytes(path: string, body: unknown, headers: readonly string[] = []): string {
  const text = JSON.stringify(body);
  return [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
    ...headers,
    '',
    text,
  ].join('\r\n');
}
