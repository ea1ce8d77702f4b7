/** What a path that leads nowhere is told. */
import { expect, test } from 'vitest';
import { noSuchRoute } from '../../src/gateway/serve/no-such-route.ts';

const paths = ['/v1/chat/completions', '/v1/messages', '/v1/models/{id}'];

test.each([
  ['', '/v1/v1/chat/completions', 'Did you mean /v1/chat/completions? The base URL'],
  ['', '/chat/completions', 'Did you mean /v1/chat/completions?'],
  ['/gateway', '/gateway/messages', 'Did you mean /gateway/v1/messages?'],
  ['/gateway', '/gateway/v1/v1/messages', 'Did you mean /gateway/v1/messages?'],
  ['', '/', 'There is no POST /. The routes begin with /v1, as /v1/chat/completions.'],
  ['/gateway', '/gateway', 'The routes begin with /gateway/v1,'],
])('below %j: %s', (basePath, path, hint) => {
  expect(noSuchRoute('POST', path, { basePath, paths })).toContain(hint);
});

test('a long path is not repeated in full', () => {
  expect(noSuchRoute('GET', `/${'x'.repeat(10_000)}`, { basePath: '', paths }).length).toBeLessThan(400);
});
