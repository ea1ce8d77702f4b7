import createClient from 'openapi-fetch';
import { unwrap } from '../api/client.ts';
import { Fault, faultOf } from '../api/fault.ts';
import type { components, paths } from '../api/gateway-schema.d.ts';
import { session } from './session.ts';

type Schemas = components['schemas'];
export type Account = Schemas['Account'];
export type Budget = Schemas['Budget'];
export type Change = Schemas['Change'];
export type Credential = Schemas['ProviderCredential'];
export type Key = Schemas['Key'];
export type CreatedKey = Schemas['CreatedKey'];
export type ListedRequest = Schemas['ListedRequest'];
export type Model = Schemas['AdminModel'];
export type Provider = Schemas['Provider'];
export type Deployment = Schemas['Deployment'];
export type RequestRecord = Schemas['RequestRecord'];
export type Status = Schemas['GatewayStatus'];
export type Usage = Schemas['Usage'];
export type UsageLine = Schemas['UsageLine'];

const notAnswering = 'The gateway does not answer. Is it still running?';

/** Sends a request; the browser adds the cookie of its session. A refused one ends the session. */
async function send(request: Request): Promise<Response> {
  const response = await fetchOrFault(request);
  if (response.status === 401) session.expire();
  return response;
}

/** @throws Fault with status 0 where there is no answer */
async function fetchOrFault(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    session.setOffline(false);
    return response;
  } catch (error) {
    if (request.signal.aborted) throw error;
    session.setOffline(true);
    throw new Fault(notAnswering);
  }
}

/** The admin API of the gateway, by path: `api.GET('/admin/v1/keys')`. Types come from its OpenAPI document. */
export const api = createClient<paths>({ baseUrl: location.origin, fetch: send });

/** Asks whether this browser is signed in. Does nothing where the gateway does not answer. */
export async function readSession(): Promise<void> {
  const response = await fetchOrFault(sessionRequest('GET')).catch(() => undefined);
  if (response) session.set(response.ok ? ((await response.json()) as { by: string | null }).by : null);
}

/** Exchanges a token for a session, with one request. @throws Fault where the gateway refuses it */
export async function signIn(token: string): Promise<void> {
  const response = await fetchOrFault(sessionRequest('POST', { authorization: `Bearer ${token}` }));
  const body: unknown = await response.json().catch(() => undefined);
  if (!response.ok) throw faultOf(response, body);
  await readSession();
  if (session.current.by === null)
    throw new Fault('The browser did not keep the cookie of the session. Allow cookies for this page.');
}

/** Ends the session at the gateway, too. */
export async function signOut(): Promise<void> {
  const response = await fetchOrFault(sessionRequest('DELETE'));
  await response.text();
  session.set(null);
}

const sessionRequest = (method: string, headers: Readonly<Record<string, string>> = {}): Request =>
  new Request(new URL('/admin/v1/session', location.origin), { method, headers });

/** Whether the gateway answers at all. */
export const isAnswering = (): Promise<boolean> =>
  fetchOrFault(new Request(new URL('/health', location.origin)))
    .then((response) => response.text())
    .then(
      () => true,
      () => false,
    );

export { unwrap };
