/** A page of another origin that uses the host, in Chromium: allowed by `--allowed-origin`, and refused. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noBrowser, TestBrowser } from '../support/browser.ts';
import { type HostProcess, startScriptedHost } from '../support/host.ts';
import { type LocalServer, serve } from '../support/local-server.ts';

const says = ['Hello', ', ', 'page', '!'];

/** What the page reads of one request. */
interface Seen {
  status?: number;
  requestId?: boolean;
  text?: string;
  error?: string;
}

describe.skipIf(noBrowser !== undefined)(`pages of other origins ${noBrowser ?? ''}`, () => {
  let site: LocalServer;
  let host: HostProcess;
  let browser: TestBrowser;
  beforeAll(async () => {
    site = await serve((_, response) =>
      response.setHeader('content-type', 'text/html').end('<title>app</title>'),
    );
    host = startScriptedHost(['--gpu', '--port', '0', '--allowed-origin', site.url], { says });
    [browser] = await Promise.all([TestBrowser.open({ webgpu: false }), host.url()]);
  });
  afterAll(async () => {
    await browser?.close();
    await host?.end();
    await site?.close();
  });

  /** Sends a request from a page, and returns what the page could read of the response. */
  const fromPage = async (pageUrl: string, path: string, body?: unknown): Promise<Seen> => {
    const { page, close } = await browser.page({ url: pageUrl });
    const seen = await page.evaluate(
      async ([url, json]) => {
        try {
          const headers = {
            'content-type': 'application/json',
            authorization: 'Bearer none',
            'x-stainless-os': 'web',
          };
          const response = await fetch(
            url,
            json === undefined ? {} : { method: 'POST', headers, body: json },
          );
          const requestId = (response.headers.get('x-request-id') ?? '').startsWith('req_');
          return { status: response.status, requestId, text: await response.text() };
        } catch (error) {
          return { error: String(error) };
        }
      },
      [(await host.url()) + path, body === undefined ? undefined : JSON.stringify(body)] as const,
    );
    await close();
    return seen;
  };
  const messages = [{ role: 'user', content: 'hi' }];

  it('chats, streams and reads errors on every wire from an allowed origin', async () => {
    const whole = await fromPage(site.url, '/v1/chat/completions', { messages });
    expect(whole).toMatchObject({ status: 200, requestId: true });
    expect(whole.text).toContain('"Hello, page!"');
    const stream = await fromPage(site.url, '/v1/chat/completions', { messages, stream: true });
    const pieces = (stream.text ?? '').matchAll(/"content":"([^"]+)"/g);
    expect([...pieces].map(([, piece]) => piece).join('')).toBe(says.join(''));
    const ollama = await fromPage(site.url, '/api/chat', { model: 'scripted', messages });
    expect([...(ollama.text ?? '').matchAll(/"content":"([^"]+)"/g)].map(([, piece]) => piece)).toEqual(says);
    const anthropic = await fromPage(site.url, '/v1/messages', { messages, max_tokens: 9, stream: true });
    expect(anthropic.text).toContain('message_stop');
    expect(await fromPage(site.url, '/v1/models')).toMatchObject({ status: 200, requestId: true });
    const bad = await fromPage(site.url, '/v1/chat/completions', { messages, temperature: 'hot' });
    expect(bad).toMatchObject({ status: 400, requestId: true });
    expect(bad.text).toContain('temperature');
  });

  it('reaches nothing from another origin, and no other plane from an allowed one', async () => {
    const elsewhere = site.url.replace('127.0.0.1', 'localhost');
    expect(elsewhere).not.toBe(site.url);
    const failed = { error: 'TypeError: Failed to fetch' };
    expect(await fromPage(elsewhere, '/v1/chat/completions', { messages })).toEqual(failed);
    expect(await fromPage(elsewhere, '/v1/models')).toEqual(failed);
    await host.waitFor('stderr', new RegExp(`--allowed-origin ${elsewhere}`));
    expect(await fromPage(site.url, '/agent/v1/sessions', {})).toEqual(failed);
    expect(await fromPage(site.url, '/lab/v1/graph')).toEqual(failed);
  });
});
