import createClient from 'openapi-fetch';
import { asFault, Fault, faultOf, notWhole } from './fault.ts';
import type { paths } from './schema.d.ts';
import { bearer } from './token.ts';

/** A request to the host the page came from. Where it asks for the bearer token, so does the page, and asks again. */
export async function ask(request: Request): Promise<Response> {
  const sent = (): Promise<Response> => {
    const copy = request.clone();
    if (bearer.token !== undefined && !copy.headers.has('authorization'))
      copy.headers.set('authorization', `Bearer ${bearer.token}`);
    return fetch(copy);
  };
  let used = bearer.token;
  let response = await sent();
  // Until it is taken, or the person gives up.
  while (asksForBearer(response)) {
    if (bearer.token === used && used !== undefined) bearer.refuse();
    // Else somebody has told it meanwhile.
    if (bearer.token === undefined && (await bearer.ask()) === undefined) return response;
    used = bearer.token;
    response = await sent();
  }
  return response;
}

/** Other credentials are asked for with 401, too; only the bearer is asked for in this way. */
const asksForBearer = ({ status, headers }: Response): boolean =>
  status === 401 && /^Bearer/i.test(headers.get('www-authenticate') ?? '');

/** Every JSON route of the host, by path: `api.GET('/lab/v1/components')`. Types come from its OpenAPI document. */
export const api = createClient<paths>({ baseUrl: location.origin, fetch: ask });

/** What an answer held. Throws `Fault` where it is a refusal, or none came. */
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

/** An answer that is no JSON, or a stream. Throws `Fault` where it is a refusal. */
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
    // It is text, then.
  }
  throw faultOf(response, body);
}

export { Fault };
