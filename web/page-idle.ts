import type { Page, Request } from 'playwright-core';

/** How long a page has no requests until it counts as idle, in ms. */
const idleMs = 500;

/**
 * Follows the requests of a page. @returns a function that resolves when none has run for a while, except for the stream of
 * changes, which has no end and because of which the page never becomes idle to Playwright.
 */
export function watchRequests(page: Page): () => Promise<void> {
  const open = new Set<Request>();
  let changedAtMs = performance.now();
  const isEndless = (request: Request) => new URL(request.url()).pathname === '/host/v1/events';
  page.on('request', (request) => {
    if (isEndless(request)) return;
    open.add(request);
    changedAtMs = performance.now();
  });
  const close = (request: Request) => {
    if (open.delete(request)) changedAtMs = performance.now();
  };
  page.on('requestfinished', close);
  page.on('requestfailed', close);
  return async () => {
    while (open.size > 0 || performance.now() - changedAtMs < idleMs)
      await new Promise((resolve) => setTimeout(resolve, 20));
  };
}
