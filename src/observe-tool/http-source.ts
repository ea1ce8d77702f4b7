import { HostError } from '../host-client/errors.ts';
import { type Exchange, exchange, type HostAddress, type HostHints } from '../host-client/http.ts';
import type { Answered, Source } from './source.ts';

export const hints: HostHints = {
  token: "name the file with the host's bearer token: --bearer-token-file FILE",
  start:
    'name another with --url, or leave out --url to read the data directory of a host that is not running',
  unavailable: (_, message) => message,
};

/** Source that queries a running host. Its methods throw `HostError`, or the reason of the signal. */
export function httpSource(host: HostAddress, signal: AbortSignal): Source {
  const ask = async <Document>(
    asked: Omit<Exchange, 'signal'>,
    ...members: (keyof Document & string)[]
  ): Promise<Answered<Document>> => {
    const path = `/observe/v1${asked.path}`;
    const text = await exchange(host, hints, { ...asked, path, signal, prompt: true });
    return { document: read(text, members, `${asked.method} ${path}`) as Document, text };
  };
  const answer = ['columns', 'rows', 'coverage', 'warnings', 'redactions'] as const;
  return {
    surfaces: () => ask({ method: 'GET', path: '/surfaces' }, 'surfaces', 'questions'),
    schema: (surface) =>
      ask(
        { method: 'GET', path: `/surfaces/${encodeURIComponent(surface)}/schema` },
        'columns',
        'key',
        'time',
      ),
    query: (body) => ask({ method: 'POST', path: '/query', body }, ...answer),
    ask: (question, body) =>
      ask({ method: 'POST', path: `/questions/${encodeURIComponent(question)}`, body }, ...answer),
    close: () => Promise.resolve(),
  };
}

function read(text: string, members: readonly string[], what: string): unknown {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw new HostError('not_a_host', `${what}: the host's response is not JSON`);
  }
  const absent = members.filter((name) => !(document instanceof Object && name in document));
  if (absent.length === 0) return document;
  throw new HostError(
    'not_a_host',
    `${what}: the host's response has no ${absent.join(', ')}; is it another version?`,
  );
}
