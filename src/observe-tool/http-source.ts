import { HostError } from '../host-client/errors.ts';
import { type HostRequest, sendRequest, type HostAddress, type HostHints } from '../host-client/http.ts';
import type { SourceResponse, Source } from './source.ts';

export const hostHints: HostHints = {
  token: "name the file with the host's bearer token: --bearer-token-file FILE",
  start:
    'name another with --url, or leave out --url to read the data directory of a host that is not running',
  unavailable: (_, message) => message,
};

/** Source that queries a running host. Its methods throw `HostError`, or the reason of the signal. */
export function httpSource(host: HostAddress, signal: AbortSignal): Source {
  const ask = async <Document>(
    exchangeOptions: Omit<HostRequest, 'signal'>,
    ...members: (keyof Document & string)[]
  ): Promise<SourceResponse<Document>> => {
    const path = `/observe/v1${exchangeOptions.path}`;
    const text = await sendRequest(host, hostHints, { ...exchangeOptions, path, signal, hasTimeout: true });
    return { document: parseResponse(text, members, `${exchangeOptions.method} ${path}`) as Document, text };
  };
  const envelopeMembers = ['columns', 'rows', 'coverage', 'warnings', 'redactions'] as const;
  return {
    surfaces: () => ask({ method: 'GET', path: '/surfaces' }, 'surfaces', 'questions'),
    schema: (surface) =>
      ask(
        { method: 'GET', path: `/surfaces/${encodeURIComponent(surface)}/schema` },
        'columns',
        'key',
        'time',
      ),
    query: (body) => ask({ method: 'POST', path: '/query', body }, ...envelopeMembers),
    ask: (question, body) =>
      ask({ method: 'POST', path: `/questions/${encodeURIComponent(question)}`, body }, ...envelopeMembers),
    close: () => Promise.resolve(),
  };
}

function parseResponse(text: string, members: readonly string[], what: string): unknown {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw new HostError('not_a_host', `${what}: the host's response is not JSON`);
  }
  const missing = members.filter((name) => !(document instanceof Object && name in document));
  if (missing.length === 0) return document;
  throw new HostError(
    'not_a_host',
    `${what}: the host's response has no ${missing.join(', ')}; is it another version?`,
  );
}
