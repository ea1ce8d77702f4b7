import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openPages, withPages } from '../../src/cli/pages.ts';
import { Access } from '../../src/planes/access.ts';

it('every response of a page has a request id, including refusals', async () => {
  const root = mkdtempSync(join(tmpdir(), 'lathe-pages-'));
  mkdirSync(join(root, 'dist/web'), { recursive: true });
  writeFileSync(join(root, 'dist/web/icon.svg'), '<svg/>');
  const planes = { fetch: () => new Response('of the planes') };
  for (const [bind, status] of [
    ['loopback', 200],
    ['lan', 401],
  ] as const) {
    const access = new Access({ bind, bearerHash: undefined, operatorHash: undefined });
    const app = withPages(planes, openPages(root), { access });
    const answer = await app.fetch(new Request('http://host/icon.svg'), {});
    expect(answer.status).toBe(status);
    expect(answer.headers.get('x-request-id')).toMatch(/^req_/);
  }
});
