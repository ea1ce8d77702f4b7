import createClient from 'openapi-fetch';
import { asFault, Fault, faultOf, invalidResponseFault } from './fault.ts';
import type { paths } from './schema.d.ts';
import { hostConnection } from './host-connection.ts';
import { session } from './session.ts';

/** Sends a request to the host of the page. On a bearer challenge, asks the user to sign in and sends it again. */
export async function fetchSignedIn(request: Request): Promise<Response> {
  for (;;) {
    const { version } = session;
    const response = await fetch(request.clone());
    if (!isBearerChallenge(response)) return response;
    // Until the user gives up. The user may have signed in meanwhile.
    if (session.version === version && !(await session.request())) return response;
    // An unread body would keep its connection, of which a browser has few.
    await response.body?.cancel();
  }
}

/** Whether the response is a bearer challenge; routes with other credentials answer 401, too. */
const isBearerChallenge = ({ status, headers }: Response): boolean =>
  status === 401 && /^Bearer/i.test(headers.get('www-authenticate') ?? '');

/** Every JSON route of the host, by path: `api.GET('/lab/v1/components')`. Types come from its OpenAPI document. */
export const api = createClient<paths>({ baseUrl: location.origin, fetch: fetchSignedIn });

/** The data of a response. @throws Fault on an error status, no response, or an invalid body */
export async function unwrap<Data>(
  request: Promise<{ readonly data?: Data; readonly error?: unknown; readonly response: Response }>,
): Promise<NonNullable<Data>> {
  let answer: Awaited<typeof request>;
  try {
    answer = await request;
  } catch (error) {
    throw error instanceof SyntaxError ? invalidResponseFault(error) : unansweredFault(error);
  }
  const { data, error, response } = answer;
  if (!response.ok) throw faultOf(response, error);
  if (data === null) throw invalidResponseFault('null');
  return data as NonNullable<Data>;
}

/**
 * The response of a route that answers a stream or a body other than JSON. @throws Fault on an error status or no
 * response
 */
export async function fetchRaw(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetchSignedIn(new Request(new URL(path, location.origin), init));
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw unansweredFault(error);
  }
  if (response.ok) return response;
  const text = await response.text();
  let body: unknown = text;
  try {
    body = JSON.parse(text);
  } catch {
    // Not JSON: the body stays text.
  }
  throw faultOf(response, body);
}

/** A request had no response, perhaps because the host is down. */
function unansweredFault(error: unknown): Fault {
  const fault = asFault(error);
  if (fault.status === 0) hostConnection.suspect();
  return fault;
}

export { Fault };
