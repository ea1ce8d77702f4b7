/** The browser engine, in Chromium with WebGPU: the built module on an otherwise empty page. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JSHandle, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { streamAnswer } from '../../web/engine/stream-answer.ts';
import type * as Lathe from '../../web/engine/index.ts';
import { requestViolations } from '../../web/engine/validate-request.ts';
import type { Chat, ChatFailure, ChatRequest, LoadProgress } from '../../web/engine/types.ts';
import { noBrowser, TestBrowser, type WatchedPage } from '../support/browser.ts';
import { writeDemoSite } from '../support/demo-site.ts';
import { repository } from '../support/host.ts';
import { type LocalServer, rangeOf, serve } from '../support/local-server.ts';
import { openStaticSite, type StaticSite } from '../support/static-site.ts';
import { everyNth, runsRest } from '../support/tier.ts';

const weights = join(repository, 'models/lathe-tiny-q8_0.gguf');
const bytes = readFileSync(weights);
const { prompts } = JSON.parse(readFileSync(join(repository, 'models/golden.json'), 'utf8')) as {
  prompts: { name: string; messages?: ChatRequest['messages']; min_gap: number }[];
};
/** Prompts for which no other token is so close that rounding could decide. */
const conversations = everyNth(
  prompts.flatMap(({ messages, min_gap }) =>
    messages && min_gap > 0.06 && requestViolations({ messages }).length === 0 ? [messages] : [],
  ),
  4,
);
const greedy = (messages: ChatRequest['messages']): ChatRequest => ({
  messages,
  temperature: 0,
  max_tokens: 32,
});
const who = greedy([{ role: 'user', content: 'Who are you?' }]);
const long: ChatRequest = {
  messages: [{ role: 'user', content: 'What is a parity gate?' }],
  temperature: 0,
};

const html = `<!doctype html><title>A page</title><link rel="icon" href="icon.svg" /><script type="module">
import * as lathe from './engine/lathe.js';
globalThis.lathe = lathe;
</script>`;

describe.skipIf(noBrowser !== undefined)(`the engine in a page ${noBrowser ?? ''}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-engine-'));
  const built = join(folder, 'site');
  let site: StaticSite;
  /** Another origin that allows reads from pages, but exposes only the default headers. */
  let far: LocalServer;
  const farRequests: string[] = [];
  /** Bytes after which its next response is cut off. */
  let cuts: number[] = [];
  let browser: TestBrowser;
  let watched: WatchedPage | undefined;

  beforeAll(async () => {
    await writeDemoSite(built);
    writeFileSync(join(built, 'page.html'), html);
    site = await openStaticSite(built);
    far = await serve((request, response) => {
      farRequests.push(request.headers.range ?? 'whole');
      const range = rangeOf(request.headers.range, bytes.length);
      const body = range ? bytes.subarray(range.first, range.last + 1) : bytes;
      response.writeHead(range ? 206 : 200, {
        'access-control-allow-origin': '*',
        etag: '"far"',
        'last-modified': 'Sun, 22 Nov 2026 08:00:00 GMT',
        'content-length': body.length,
        ...(range ? { 'content-range': `bytes ${range.first}-${range.last}/${bytes.length}` } : {}),
      });
      const cut = cuts.shift() ?? Number.POSITIVE_INFINITY;
      if (cut >= body.length) response.end(body);
      else response.write(body.subarray(0, cut), () => setTimeout(() => response.destroy(), 200));
    });
    browser = await TestBrowser.open();
  });
  afterEach(() => watched?.close());
  afterAll(async () => {
    await browser?.close();
    await site?.close();
    await far?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const moduleOf = (page: Page): Promise<JSHandle<typeof Lathe>> =>
    page.waitForFunction(() => (globalThis as { lathe?: typeof Lathe }).lathe) as Promise<
      JSHandle<typeof Lathe>
    >;

  /** A page of a fresh browser profile. */
  async function opened(): Promise<{ page: Page; lathe: JSHandle<typeof Lathe> }> {
    watched = await browser.page({ url: `${site.url}page.html` });
    return { page: watched.page, lathe: await moduleOf(watched.page) };
  }

  /** The progress of a load and the greeting of the model, or the error. */
  const load = (
    lathe: JSHandle<typeof Lathe>,
    options: { model?: string; cache?: boolean; contextLength?: number },
  ) =>
    lathe.evaluate(
      async ({ createChat, ChatError }, { options: given, greeting }) => {
        const progress: LoadProgress[] = [];
        try {
          const chat = await createChat({ ...given, onProgress: (one) => progress.push(one) });
          const { choices } = await chat.chat.completions.create({ ...greeting, stream: false });
          await chat.close();
          const { model, device } = chat;
          return { progress, model, device, text: choices[0].message.content };
        } catch (error) {
          if (!(error instanceof ChatError)) throw error;
          return { progress, code: error.code, message: error.message };
        }
      },
      { options, greeting: who },
    );

  it('answers the golden prompts as on Node, whole and in chunks', async () => {
    const engine: ResidentEngine = await loadEngine(nodePlatform(), { model: weights });
    const expected: string[] = [];
    for (const messages of conversations) {
      let text = '';
      for await (const chunk of streamAnswer(engine, greedy(messages), new AbortController().signal))
        text += chunk.choices[0].delta.content ?? '';
      expected.push(text);
    }
    const { digest } = engine.model;
    await engine.close();

    const { lathe } = await opened();
    const found = await lathe.evaluate(async ({ createChat }, requests) => {
      const chat = await createChat();
      const whole: string[] = [];
      const streamed: string[] = [];
      for (const request of requests) {
        const { choices } = await chat.chat.completions.create({ ...request, stream: false });
        whole.push(choices[0].message.content);
        let text = '';
        for await (const chunk of await chat.chat.completions.create({ ...request, stream: true }))
          text += chunk.choices[0].delta.content ?? '';
        streamed.push(text);
      }
      const samples = await Promise.all(
        [true, false].map(() =>
          chat.chat.completions.create({ ...requests[0]!, temperature: 1, seed: 7, stream: false }),
        ),
      );
      return {
        whole,
        streamed,
        samples: samples.map(({ choices }) => choices[0].message.content),
        model: chat.model,
        device: chat.device,
      };
    }, conversations.map(greedy));
    expect(found.whole).toEqual(expected);
    expect(found.streamed).toEqual(expected);
    // The same seed twice, concurrently.
    expect(found.samples[0]).toBe(found.samples[1]);
    expect(found.model).toMatchObject({ id: 'lathe-tiny', digest, contextLength: 1024 });
    expect(found.device).toMatchObject({ fallback: true, architecture: 'swiftshader' });
    expect(watched?.faults()).toEqual([]);
    // A dozen answers, each generated twice, on a software adapter.
  });

  it.runIf(runsRest)('runs the page of docs/tutorials/first-page.md', async () => {
    const example = /```html\n(.*?)```/s.exec(
      readFileSync(join(repository, 'docs/tutorials/first-page.md'), 'utf8'),
    )?.[1];
    writeFileSync(join(built, 'example.html'), example ?? '');
    watched = await browser.page({ url: `${site.url}example.html` });
    const { page } = watched;
    await page.getByRole('status').getByText('is ready').waitFor();
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.getByText("I am lathe's small demo model. I am very tiny, so I make mistakes.").waitFor();
    await page.getByRole('status').getByText('19 tokens').waitFor();
    await page.getByLabel('Question').fill('Tell me a story.');
    await page.getByLabel('Question').press('Enter');
    await page.getByText('Once').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('status').getByText('tokens').waitFor();
    expect(watched.faults().filter((fault) => !fault.includes('favicon'))).toEqual([]);
  });

  it('stops during an answer and keeps its text; a closed chat reports that it is closed', async () => {
    const { lathe } = await opened();
    const found = await lathe.evaluate(async ({ createChat }, story) => {
      const chat = await createChat();
      const stop = new AbortController();
      let text = '';
      let last: unknown;
      const stream = await chat.chat.completions.create({ ...story, stream: true }, { signal: stop.signal });
      for await (const { choices, timings } of stream) {
        text += choices[0].delta.content ?? '';
        if (text.length > 20) stop.abort();
        last = { finish: choices[0].finish_reason, tokens: timings?.completion_tokens };
      }
      const again = await chat.chat.completions.create({ ...story, max_tokens: 3, stream: false });
      const running = chat.chat.completions
        .create({ ...story, stream: false })
        .catch((error: unknown) => error);
      await chat.close();
      const ended = (await running) as { code: string };
      return { text, last, again: again.usage.completion_tokens, ended: ended.code, gone: await chat.gone };
    }, long);
    expect(found.text.length, found.text).toBeGreaterThan(20);
    expect(found.last).toMatchObject({ finish: 'stop', tokens: expect.any(Number) as number });
    expect(found.again).toBe(3);
    expect(found).toMatchObject({ ended: 'closed', gone: 'closed' });
  });

  it.runIf(runsRest)('loads a selected file', async () => {
    const { page, lathe } = await opened();
    await page.evaluate(() => {
      const input = document.createElement('input');
      input.type = 'file';
      document.body.append(input);
    });
    await page.locator('input').setInputFiles(weights);
    const text = await lathe.evaluate(async ({ createChat }, greeting) => {
      const files = [...(document.querySelector('input')?.files ?? [])];
      const chat = await createChat({ model: files });
      return (await chat.chat.completions.create({ ...greeting, stream: false })).choices[0].message.content;
    }, who);
    expect(text).toBe("I am lathe's small demo model. I am very tiny, so I make mistakes.");
  });

  it('stores a model from a URL: the second load sends no request, and the model can be deleted', async () => {
    const { page, lathe } = await opened();
    const model = `${far.url}/tiny.gguf`;
    farRequests.length = 0;
    const first = await load(lathe, { model });
    expect(first.text).toMatch(/^I am lathe's/);
    expect(farRequests).toEqual(['whole']);
    const of = (phase: string) => first.progress.filter((one) => one.phase === phase);
    expect(of('download').at(-1)).toMatchObject({ done: bytes.length, total: bytes.length });
    expect(first.progress.at(-1)?.phase).toBe('ready');

    await page.reload();
    const again = await moduleOf(page);
    const second = await load(again, { model });
    expect(second.text).toBe(first.text);
    expect(second.progress.some(({ cached }) => cached)).toBe(true);
    expect(farRequests).toEqual(['whole']);
    const kept = await again.evaluate(({ keptModels }) => keptModels());
    expect(kept).toEqual([{ url: model, bytes: bytes.length, whole: true }]);
    const left = await again.evaluate(async ({ keptModels, forgetModel }, url) => {
      await forgetModel(url);
      return await keptModels();
    }, model);
    expect(left).toEqual([]);
  });

  it.runIf(runsRest)(
    'resumes an interrupted download, also from another origin and after a reload',
    async () => {
      const { page, lathe } = await opened();
      const model = `${far.url}/tiny.gguf`;
      farRequests.length = 0;
      cuts = [1_000_000, 0, 0, 0, 0];
      const broken = await load(lathe, { model });
      expect(broken).toMatchObject({
        code: 'download_failed',
        message: expect.stringMatching(
          /interrupted after .* of 3\.8 MiB .*load the model again to resume/,
        ) as string,
      });
      cuts = [];
      await page.reload();
      farRequests.length = 0;
      const whole = await load(await moduleOf(page), { model });
      expect(whole.text).toMatch(/^I am lathe's/);
      expect(farRequests).toHaveLength(1);
      expect(farRequests[0]).toMatch(/^bytes=[1-9]\d+-$/);
    },
  );

  it.runIf(runsRest)(
    'reads a model that is not stored by ranges if possible, otherwise completely',
    async () => {
      const { lathe } = await opened();
      farRequests.length = 0;
      const found = await load(lathe, { model: `${far.url}/tiny.gguf`, cache: false });
      expect(found.text).toMatch(/^I am lathe's/);
      expect(await lathe.evaluate(({ keptModels }) => keptModels())).toEqual([]);
      // Its `Content-Range` is hidden from pages of other origins.
      expect(farRequests).toContain('whole');
      const near = await load(lathe, {
        model: 'models/lathe-tiny-q8_0.gguf',
        cache: false,
        contextLength: 128,
      });
      expect(near).toMatchObject({ text: found.text, model: { contextLength: 128 } });
    },
  );

  it.runIf(runsRest)('loads a model in two pages at once and fetches it once', async () => {
    const { page, lathe } = await opened();
    const other = await page.context().newPage();
    await other.goto(`${site.url}page.html`);
    const model = `${far.url}/tiny.gguf`;
    farRequests.length = 0;
    const [one, two] = await Promise.all([load(lathe, { model }), load(await moduleOf(other), { model })]);
    expect(one.text).toBe(two.text);
    expect(farRequests).toEqual(['whole']);
  });

  it.runIf(runsRest)('reports with sizes that the browser has no space for a model', async () => {
    const { page, lathe } = await opened();
    const session = await page.context().newCDPSession(page);
    await session.send('Storage.overrideQuotaForOrigin', {
      origin: new URL(site.url).origin,
      quotaSize: 2_000_000,
    });
    const model = `${far.url}/tiny.gguf`;
    expect(await load(lathe, { model })).toMatchObject({
      code: 'quota_exceeded',
      message: expect.stringMatching(
        /the browser refused to store more than .* of 3\.8 MiB .* used/,
      ) as string,
    });
    expect((await load(lathe, { model, cache: false })).text).toMatch(/^I am lathe's/);
  });

  it('reports what is wrong with a model, a URL, a size', async () => {
    const { lathe } = await opened();
    expect(await load(lathe, { model: 'nothing.gguf' })).toMatchObject({ code: 'download_failed' });
    expect(await load(lathe, { model: 'engine/lathe.js' })).toMatchObject({ code: 'bad_model' });
    expect(await load(lathe, { model: 'ftp://x/y.gguf' })).toMatchObject({ code: 'invalid_request' });
    expect(await load(lathe, { contextLength: 99_999 })).toMatchObject({
      code: 'invalid_request',
      message: expect.not.stringContaining('--') as string,
    });
    const wrong = await lathe.evaluate(({ createChat }) =>
      createChat({ contextLength: -1, cache: 'no' } as never).catch(
        ({ code, violations }: Lathe.ChatError) => ({
          code,
          paths: violations.map(({ path }) => path),
        }),
      ),
    );
    expect(wrong).toEqual({ code: 'invalid_request', paths: ['contextLength', 'cache'] });
    const given = await lathe.evaluate(({ createChat }) =>
      createChat({ signal: AbortSignal.abort(new Error('not now')) }).catch((error: Error) => error.message),
    );
    expect(given).toBe('not now');
  });

  it('reports a lost GPU, and works again after another load', async () => {
    const { page, lathe } = await opened();
    const asking = lathe.evaluate(async ({ createChat }, story) => {
      const chat: Chat = await createChat();
      document.title = 'asking';
      const answered = chat.chat.completions.create({ ...story, stream: false });
      const code = await answered.then(
        () => 'answered',
        (error: Lathe.ChatError) => error.code,
      );
      const gone: ChatFailure = await chat.gone;
      return { code, gone };
    }, long);
    await page.waitForFunction(() => document.title === 'asking');
    const session = await page.context().browser()?.newBrowserCDPSession();
    await session?.send('Browser.crashGpuProcess');
    expect(await asking).toEqual({ code: 'device_lost', gone: 'device_lost' });
    expect((await load(lathe, {})).text).toMatch(/^I am lathe's/);
  });
});

describe.skipIf(noBrowser !== undefined)(`a browser without WebGPU ${noBrowser ?? ''}`, () => {
  it('is distinguished from a browser without a GPU', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'lathe-engine-'));
    await writeDemoSite(folder);
    writeFileSync(join(folder, 'page.html'), html);
    const site = await openStaticSite(folder);
    const browser = await TestBrowser.open({ webgpu: false });
    const { page } = await browser.page({ url: `${site.url}page.html` });
    await page.waitForFunction(() => 'lathe' in globalThis);
    const code = await page.evaluate(async () => {
      const { lathe } = globalThis as unknown as { lathe: typeof Lathe };
      return await lathe.createChat().then(
        () => 'ready',
        ({ code: failure }: Lathe.ChatError) => failure,
      );
    });
    expect(['no_webgpu', 'no_adapter']).toContain(code);
    await browser.close();
    await site.close();
    rmSync(folder, { recursive: true, force: true });
  });
});
