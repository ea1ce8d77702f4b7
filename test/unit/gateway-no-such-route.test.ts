/** The 404 of an unknown path. */
import { expect, test } from 'vitest';
import { routeHints } from '../../src/gateway/serve/app.ts';
import { createNotFoundError } from '../../src/http/router.ts';

const routes = ['/v1/chat/completions', '/v1/messages', '/v1/models/{id}'].map((path) => ({
  method: 'POST' as const,
  path,
}));
const messageOf = (path: string, basePath: string) =>
  createNotFoundError({ routes, basePath }, routeHints(basePath))(path).message;

test.each([
  ['', '/v1/v1/chat/completions', 'did you mean /v1/chat/completions? The base URL'],
  ['', '/chat/completions', 'did you mean /v1/chat/completions?'],
  ['/gateway', '/gateway/messages', 'did you mean /gateway/v1/messages?'],
  ['/gateway', '/gateway/v1/v1/messages', 'did you mean /gateway/v1/messages?'],
  ['', '/', 'There is no /; the routes begin with /v1, as /v1/chat/completions; /docs lists them.'],
  ['/gateway', '/gateway', 'the routes begin with /gateway/v1,'],
])('below %j: %s', (basePath, path, hint) => {
  expect(messageOf(path, basePath)).toContain(hint);
});

test('a long path is not repeated in full', () => {
  expect(messageOf(`/${'x'.repeat(10_000)}`, '').length).toBeLessThan(400);
});
