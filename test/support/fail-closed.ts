import { request } from 'node:http';
import { expect } from 'vitest';
import type { WatchedHost } from './watched-host.ts';

/** A method, a path, and a body that would be taken. */
export type Door = readonly [method: string, path: string, body?: unknown];

/** No door of a plane opens without the bearer, on loopback too; a peer's token opens it until it is revoked. */
export async function expectFailClosed(at: WatchedHost, doors: readonly Door[]): Promise<void> {
  const peer = await at.peer(`peer-${doors.length}`);
  const wrong: Record<string, string>[] = [
    {},
    { authorization: '' },
    { authorization: 'Bearer' },
    { authorization: 'Bearer wrong' },
    { authorization: at.bearer.authorization.slice('Bearer '.length) },
    { authorization: `Basic ${at.bearer.authorization.slice('Bearer '.length)}` },
    { authorization: `${at.bearer.authorization}x` },
    { authorization: `Bearer ${at.operator['x-svc-operator']}` },
    { 'x-api-key': at.bearer.authorization.slice('Bearer '.length) },
    at.operator,
  ];
  const tried = async (headers: Record<string, string>) => {
    for (const [method, path, body] of doors) {
      const refused = await at.call(method, path, { ...(body === undefined ? {} : { body }), headers });
      const about = `${method} ${path} ${JSON.stringify(headers)}`;
      expect([about, refused.status]).toEqual([about, 401]);
      expect(refused.headers.get('www-authenticate'), about).toBe('Bearer');
      expect(refused.json, about).toMatchObject({ error: { code: 'unauthorized' } });
      if (method === 'GET') expect((await at.call('HEAD', path, { headers })).status, about).toBe(401);
    }
  };
  for (const headers of wrong) await tried(headers);
  for (const [method, path, body] of doors) {
    const options = { ...(body === undefined ? {} : { body }), headers: peer.headers };
    // Behind it, ingest asks for another credential.
    const entered = await at.call(method, path, options);
    expect([method, path, entered.headers.get('www-authenticate')]).toEqual([method, path, null]);
  }
  await peer.revoke();
  await tried(peer.headers);
  for (const [method, path, body] of doors)
    if (body !== undefined) expect([path, await unsent(at.url + path, method)]).toEqual([path, 401]);
}

/** The status of a request whose body is announced and never comes. */
function unsent(url: string, method: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': '1000' };
    const sent = request(url, { method, headers }, (response) => {
      resolve(response.statusCode ?? 0);
      sent.destroy();
    });
    sent.on('error', reject);
    sent.flushHeaders();
  });
}

/**
 * What is true of every path of a plane: other methods, HEAD, what is not there.
 * @param plane the path that all of them are under
 */
export async function expectWellMannered(at: WatchedHost, doors: readonly Door[], plane: string) {
  const paths = Map.groupBy(doors, ([, path]) => path.split('?')[0] ?? '');
  for (const [path, known] of paths) {
    const allowed = known.flatMap(([method]) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).toSorted();
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      if (allowed.includes(method)) continue;
      const refused = await at.call(method, path, { headers: at.bearer });
      expect([method, path, refused.status]).toEqual([method, path, 405]);
      expect(refused.headers.get('allow')?.split(', ').toSorted()).toEqual(allowed);
      if (method !== 'HEAD') expect(refused.json).toMatchObject({ error: { code: 'method_not_allowed' } });
    }
    if (!allowed.includes('GET')) continue;
    const [got, head] = [await at.get(path, at.bearer), await at.call('HEAD', path, { headers: at.bearer })];
    expect([path, head.status, head.text]).toEqual([path, got.status, '']);
  }
  for (const path of [plane, `${plane}/`, `${plane}/v1`, `${plane}/v1/nothing`, `${plane}/v2/query`]) {
    const absent = await at.get(path, at.bearer);
    expect([path, absent.status]).toEqual([path, 404]);
    expect(absent.json).toMatchObject({ error: { code: 'not_found' } });
  }
}
