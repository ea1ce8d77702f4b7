/** The operator listener of the gateway in a host. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { buildHost, freshDataDir, startHost } from '../support/host.ts';

const token = 'ada-token-that-is-long-enough-1';

beforeAll(() => buildHost());

it('a host opens the operator listener on loopback, and says where it is', async () => {
  const dataDir = freshDataDir();
  const file = join(dataDir, 'operators');
  writeFileSync(file, `ada ${token}\n`);
  const host = startHost([
    '--port',
    '0',
    '--data-dir',
    dataDir,
    '--gateway-admin-port',
    '0',
    '--gateway-admin-token-file',
    file,
  ]);
  onTestFinished(() => host.end());
  const url = await host.url();
  const info = (await (await fetch(`${url}/host/v1/info`)).json()) as { gateway_admin_port: number };
  const admin = `http://127.0.0.1:${info.gateway_admin_port}`;
  const headers = { authorization: `Bearer ${token}` };
  const created = await fetch(`${admin}/admin/v1/accounts`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'team', credit_usd: '1' }),
  });
  expect(created.status).toBe(200);
  expect((await fetch(`${admin}/admin/v1/accounts`)).status).toBe(401);
  // The callers' listener has none of it.
  expect((await fetch(`${url}/admin/v1/accounts`, { headers })).status).toBe(404);
  expect(await (await fetch(`${admin}/metrics`)).text()).toContain('lathe_gateway_info');
  const page = await fetch(`${admin}/`, { headers: { accept: 'text/html' } });
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
});

it('without a token it has metrics, and says what its page needs', async () => {
  const host = startHost(['--port', '0', '--data-dir', freshDataDir(), '--gateway-admin-port', '0']);
  onTestFinished(() => host.end());
  const url = await host.url();
  const [, admin = ''] =
    /metrics are on (\S+)\/metrics; .*--gateway-admin-token-file/.exec(host.output.stderr) ?? [];
  expect(await (await fetch(`${admin}/metrics`)).text()).toContain('lathe_gateway_info');
  expect(await (await fetch(`${url}/host/v1/info`)).json()).not.toHaveProperty('gateway_admin_port');
});

it('a host without the option has none, and tokens need a listener', async () => {
  const host = startHost(['--port', '0', '--data-dir', freshDataDir()]);
  onTestFinished(() => host.end());
  const info: unknown = await (await fetch(`${await host.url()}/host/v1/info`)).json();
  expect(info).not.toHaveProperty('gateway_admin_port');
  const refused = startHost(['--data-dir', freshDataDir(), '--gateway-admin-token-file', 'x']);
  expect(await refused.exit).toMatchObject({ code: 2 });
  expect(refused.output.stderr).toContain('--gateway-admin-token-file needs --gateway-admin-port');
});
