import createClient from 'openapi-fetch';
import { asFault, Fault, faultOf } from './fault.ts';
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
  const used = bearer.token;
  const response = await sent();
  // Other credentials are asked for with 401, too; only the bearer is asked for in this way.
  if (response.status !== 401 || !/^Bearer/i.test(response.headers.get('www-authenticate') ?? ''))
    return response;
  // Somebody may have told it meanwhile.
  if (bearer.token !== undefined && bearer.token !== used) return await sent();
  if (bearer.token !== undefined) bearer.forget();
  return (await bearer.ask()) === undefined ? response : await sent();
}

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
    throw asFault(error);
  }
  const { data, error, response } = answer;
  if (!response.ok) throw faultOf(response, error);
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
