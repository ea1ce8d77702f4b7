import createClient from 'openapi-fetch';
import { asFault, Fault, faultOf, notWhole } from './fault.ts';
import type { paths } from './schema.d.ts';
import { bearer } from './token.ts';

/** Sends a request to the host of the page. On a bearer challenge, asks the user for the token and sends it again. */
export async function ask(request: Request): Promise<Response> {
  const sent = (): Promise<Response> => {
    const copy = request.clone();
    if (bearer.token !== undefined && !copy.headers.has('authorization'))
      copy.headers.set('authorization', `Bearer ${bearer.token}`);
    return fetch(copy);
  };
  let used = bearer.token;
  let response = await sent();
  // Until the token is accepted or the user gives up.
  while (asksForBearer(response)) {
    if (bearer.token === used && used !== undefined) bearer.refuse();
    // Otherwise the token was entered in the meantime.
    if (bearer.token === undefined && (await bearer.ask()) === undefined) return response;
    used = bearer.token;
    response = await sent();
  }
  return response;
}

/** Whether the response is a bearer challenge; routes with other credentials answer 401, too. */
const asksForBearer = ({ status, headers }: Response): boolean =>
  status === 401 && /^Bearer/i.test(headers.get('www-authenticate') ?? '');

/** Every JSON route of the host, by path: `api.GET('/lab/v1/components')`. Types come from its OpenAPI document. */
export const api = createClient<paths>({ baseUrl: location.origin, fetch: ask });

/** The data of a response. @throws Fault on an error status, no response, or an invalid body */
export async function held<Data>(
  asked: Promise<{ readonly data?: Data; readonly error?: unknown; readonly response: Response }>,
): Promise<NonNullable<Data>> {
  let answer: Awaited<typeof asked>;
  try {
    answer = await asked;
  } catch (error) {
    throw error instanceof SyntaxError ? notWhole(error) : asFault(error);
  }
  const { data, error, response } = answer;
  if (!response.ok) throw faultOf(response, error);
  if (data === null) throw notWhole('null');
  return data as NonNullable<Data>;
}

/**
 * The response of a route that answers a stream or a body other than JSON. @throws Fault on an error status or no
 * response
 */
export async function raw(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await ask(new Request(new URL(path, location.origin), init));
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw asFault(error);
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

export { Fault };
