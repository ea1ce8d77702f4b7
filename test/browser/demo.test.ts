import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults, layoutFaults } from '../support/accessibility.ts';
import { noBrowser, TestBrowser, type WatchedPage } from '../support/browser.ts';
import { writeDemoSite } from '../support/demo-site.ts';
import { repository } from '../support/host.ts';
import { openStaticSite, type StaticSite } from '../support/static-site.ts';
import { everyNth, runsRest } from '../support/tier.ts';

const weights = join(repository, 'models/lathe-tiny-q8_0.gguf');
const golden = JSON.parse(readFileSync(join(repository, 'models/golden.json'), 'utf8')) as {
  prompts: { name: string; text: string; messages: { content: string }[] }[];
};
/** A golden prompt, with the answer of the reference engine for the same weights. */
function goldenOf(name: string): { prompt: string; text: string } {
  const found = golden.prompts.find((one) => one.name === name);
  if (!found) throw new Error(`golden.json has no '${name}'`);
  return { prompt: found.messages.at(-1)?.content ?? '', text: found.text.split('<|im_end|>')[0] ?? '' };
}

const below = '/some/where/';

const isReady = (page: Page) => page.getByText('Ready', { exact: true }).waitFor();
const lastAnswer = (page: Page) => page.getByRole('article', { name: 'Answer of lathe' }).last();
/**
 * Presses Stop from within the page at the first word of answer number `before`: an answer is shorter than a round trip
 * to the page.
 */
const stopAtFirstWord = (page: Page, before: number) =>
  page.evaluate(
    (index) =>
      new Promise<void>((resolve) => {
        const seen = new MutationObserver(() => {
          const answer = document.querySelectorAll('article[aria-label="Answer of lathe"]')[index];
          const stop = Array.from(document.querySelectorAll('button')).find(
            ({ textContent }) => textContent === 'Stop',
          );
          if (!stop || !/\w/.test(answer?.querySelector('p')?.textContent ?? '')) return;
          seen.disconnect();
          stop.click();
          resolve();
        });
        seen.observe(document.body, { subtree: true, childList: true, characterData: true });
      }),
    before,
  );
const message = (page: Page) => page.getByRole('textbox', { name: 'Message', exact: true });

async function sendPrompt(page: Page, prompt: string) {
  const answers = page.getByRole('article', { name: /^Answer of/ });
  const before = await answers.count();
  await message(page).fill(prompt);
  await message(page).press('Enter');
  const answer = answers.nth(before);
  await answer
    .getByText(/tokens? in /)
    .last()
    .waitFor();
  return answer;
}

describe.skipIf(noBrowser !== undefined)(`the demo as a static site, below a path ${noBrowser ?? ''}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-demo-'));
  const built = join(folder, 'site');
  let browser: TestBrowser;
  let site: StaticSite;

  beforeAll(async () => {
    await writeDemoSite(built);
    site = await openStaticSite(built, { below });
    browser = await TestBrowser.open();
  });
  afterAll(async () => {
    await browser?.close();
    await site?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  describe('with the embedded model', () => {
    let watched: WatchedPage;
    let page: Page;
    beforeAll(async () => {
      watched = await browser.page({ url: site.url });
      ({ page } = watched);
      await isReady(page);
    });
    afterAll(() => watched?.close());

    const windows = [
      { width: 360, dark: false },
      { width: 1440, dark: true },
    ];
    it.each(everyNth(windows, 2))(
      'has no serious axe violation and no horizontal overflow: %o',
      async ({ width, dark }) => {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
        expect(await layoutFaults(page)).toEqual([]);
        await page.setViewportSize({ width: 1280, height: 900 });
        await page.emulateMedia({ colorScheme: 'light' });
      },
    );

    it('answers a golden prompt with the golden text, and shows the timings', async () => {
      const { prompt, text } = goldenOf('sum');
      const answer = await sendPrompt(page, prompt);
      await expect.poll(() => answer.locator('p').first().textContent()).toBe(text);
      const figures = await answer.innerText();
      expect(figures).toMatch(/[\d.,]+ tokens\/s/);
      expect(figures).toMatch(/Prefill: 18 tokens in [\d.]+ (ms|s)/);
      expect(figures).toMatch(/Decode: \d+ tokens in [\d.]+ (ms|s)/);
    });

    it('shows the adapter, and that it is a software adapter', async () => {
      const device = page.getByRole('region', { name: 'Device and model' });
      const shownText = await device.innerText();
      expect(shownText).toContain('swiftshader');
      expect(shownText).toContain('The browser returned a fallback adapter');
      expect(shownText).toContain('subgroups');
      expect(shownText).toContain('lathe-tiny');
    });

    it('stops an answer and keeps its text so far', async () => {
      await message(page).fill(goldenOf('story').prompt);
      const answers = page.getByRole('article', { name: 'Answer of lathe' });
      const stopped = stopAtFirstWord(page, await answers.count());
      await page.getByRole('button', { name: 'Send' }).click();
      await stopped;
      await lastAnswer(page).getByText('Stopped.').waitFor();
      const text = (await lastAnswer(page).locator('p').first().textContent()) ?? '';
      expect(text).not.toBe('');
      await page.getByRole('button', { name: 'Send' }).waitFor();
    });

    it('starts a new line on Shift+Enter', async () => {
      await message(page).fill('one');
      await message(page).press('Shift+Enter');
      await message(page).pressSequentially('two');
      expect(await message(page).inputValue()).toBe('one\ntwo');
      await message(page).fill('');
    });

    it('samples by the controls, and keeps them in the URL', async () => {
      await page.getByRole('button', { name: 'New chat' }).click();
      await expect.poll(() => page.getByRole('article').count()).toBe(0);
      await page.getByLabel('Max tokens').fill('0');
      await page.getByText('must be from 1 to 32768').waitFor();
      expect(new URL(page.url()).search).toBe('');
      await page.getByLabel('Max tokens').fill('3');
      await page.getByLabel('System prompt').fill('Answer in one word.');
      await expect.poll(() => new URL(page.url()).search).toBe('?system=Answer+in+one+word.&max_tokens=3');
      const answer = await sendPrompt(page, goldenOf('parity gate').prompt);
      await expect.poll(() => answer.innerText()).toContain('Truncated: token limit reached.');
      await expect.poll(() => answer.innerText()).toContain('Decode: 3 tokens');
    });

    it('keeps chats over a reload, with the versions of edited messages and regenerated answers', async () => {
      await page.evaluate(() => sessionStorage.setItem('lathe-demo-chat', 'new'));
      await page.goto(site.url);
      await isReady(page);
      await page.getByText('No messages yet.').waitFor();
      const { prompt, text } = goldenOf('sum');
      await sendPrompt(page, prompt);
      await page.getByRole('button', { name: 'Regenerate' }).click();
      await page.getByText('2/2').waitFor();
      const questions = page.getByRole('article', { name: 'Your message' });
      await page.getByRole('button', { name: 'Send' }).waitFor();
      await questions.getByRole('button', { name: 'Edit' }).click();
      await page.getByRole('textbox', { name: 'Your message' }).fill(goldenOf('parity gate').prompt);
      await page.getByRole('button', { name: 'Resend' }).click();
      await questions.getByText('2/2').waitFor();
      await lastAnswer(page)
        .getByText(/Decode: /)
        .waitFor();
      await questions.getByRole('button', { name: 'Previous version of the message' }).click();
      await questions.getByText(prompt).waitFor();

      await page.reload();
      await isReady(page);
      await questions.getByText(prompt).waitFor();
      await page.getByText('2/2').waitFor();
      for (const colorScheme of ['dark', 'light'] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await accessibilityFaults(page)).toEqual([]);
      }
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await page.getByRole('button', { name: 'Copy answer' }).click();
      expect(await page.evaluate(() => navigator.clipboard.readText())).not.toBe('');
      await page.getByRole('button', { name: 'Previous version of the answer' }).click();
      await expect.poll(() => lastAnswer(page).locator('p').first().textContent()).toBe(text);

      await page.getByRole('button', { name: 'New chat' }).click();
      await page.getByText('No messages yet.').waitFor();
      const chats = page.getByRole('list', { name: 'Chats' });
      await chats
        .getByRole('button', { name: new RegExp(`^${prompt.slice(0, 8)}`) })
        .first()
        .click();
      await questions.getByText(prompt).waitFor();
      await page.getByRole('button', { name: 'Clear all' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Clear all' }).click();
      await page.getByText('No chats yet.').waitFor();

      // Without the history, nothing is left after a reload.
      await page.getByLabel('Keep chats in this browser').uncheck();
      await sendPrompt(page, prompt);
      await page.reload();
      await isReady(page);
      await page.getByText('No chats yet.').waitFor();
      await page.getByText('No messages yet.').waitFor();
      await page.getByLabel('Keep chats in this browser').check();
    });

    it('has no link to a console, because a static server has none', async () => {
      expect(await page.getByRole('link', { name: 'Console' }).count()).toBe(0);
    });

    it('loads a chosen file, and reports a file that is not a model', async () => {
      const chosen = page.getByLabel('Local GGUF file');
      const broken = join(folder, 'page.gguf');
      writeFileSync(broken, '<!doctype html><title>404</title>');
      await chosen.setInputFiles(broken);
      const alert = page.getByRole('alert');
      await alert.getByText('Unsupported model file').waitFor();
      await expect.poll(() => alert.innerText()).toContain('page.gguf');
      await chosen.setInputFiles(weights);
      await isReady(page);
      await expect.poll(() => alert.count()).toBe(0);
    });

    it('logs no error, contacts no other origin, and does not load web-llm', () => {
      expect(watched.faults()).toEqual([]);
      expect(site.requestedPaths.filter((path) => path.includes('web-llm'))).toEqual([]);
    });
  });

  it.runIf(runsRest)('stores a model from a URL, loads it from storage, and removes it', async () => {
    const { page, faults, close } = await browser.page({ url: site.url });
    await isReady(page);
    await page.getByLabel('Model URL').fill('models/lathe-tiny-q8_0.gguf');
    await page.getByRole('button', { name: 'Load from URL' }).click();
    const kept = page.getByRole('region', { name: 'Models stored in this browser' });
    await kept.getByText('In use').waitFor();
    await isReady(page);
    const url = `${site.url}models/lathe-tiny-q8_0.gguf`;
    await expect.poll(() => new URL(page.url()).searchParams.get('model')).toBe(url);
    await expect.poll(() => kept.innerText()).toContain('3.8 MiB');

    await page.reload();
    await page.getByText('This link names a model').waitFor();
    const before = site.requestedPaths.filter((path) => path.startsWith('models/')).length;
    await page.getByRole('button', { name: 'Load the model' }).click();
    await isReady(page);
    // At most one request, which checks whether the file has changed.
    expect(
      site.requestedPaths.filter((path) => path.startsWith('models/')).length - before,
    ).toBeLessThanOrEqual(1);

    await page.getByRole('button', { name: 'Load the embedded model' }).click();
    await kept.getByRole('button', { name: `Remove ${url}` }).click();
    await kept.waitFor({ state: 'detached' });
    expect(faults()).toEqual([]);
    await close();
  });

  it.runIf(runsRest)('cancels a download and resumes it', async () => {
    const goOn = Promise.withResolvers<void>();
    const slow = await openStaticSite(built, { held: { after: 2 * 2 ** 20, until: goOn.promise } });
    const { page, faults, close } = await browser.page({
      url: `${slow.url}?model=models/lathe-tiny-q8_0.gguf`,
    });
    await page.getByRole('button', { name: 'Load the model' }).click();
    await page.getByText(/: [1-3](\.\d)? MiB of 3\.8 MiB/).waitFor();
    const bar = page.getByRole('progressbar');
    expect(Number(await bar.getAttribute('max'))).toBe(statSync(weights).size);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('The downloaded part is kept').waitFor();
    goOn.resolve();
    const kept = page.getByRole('region', { name: 'Models stored in this browser' });
    await kept.getByText('Incomplete').waitFor();
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await isReady(page);
    await expect.poll(() => kept.getByText('Incomplete').count()).toBe(0);
    expect(slow.ranges.some((range) => /^bytes=[1-9]/.test(range))).toBe(true);
    expect(faults()).toEqual([]);
    await close();
    await slow.close();
  });

  it('contacts another server only on request, and explains a failure', async () => {
    const elsewhere = 'https://models.example/tiny.gguf';
    const { page, faults, close } = await browser.page({
      url: `${site.url}?model=${encodeURIComponent(elsewhere)}`,
    });
    await page.getByText('Loading it contacts that server').waitFor();
    expect(faults()).toEqual([]);
    await page.context().route('https://models.example/**', (route) => route.abort());
    await page.getByRole('button', { name: 'Load the model' }).click();
    const alert = page.getByRole('alert');
    await alert.getByText('The model could not be downloaded').waitFor();
    await expect.poll(() => alert.innerText()).toContain('CORS');
    expect(faults().filter((fault) => !fault.includes(elsewhere) && !fault.includes('ERR_FAILED'))).toEqual(
      [],
    );
    await alert.getByRole('button', { name: 'Load the embedded model' }).click();
    await isReady(page);
    await expect.poll(() => new URL(page.url()).search).toBe('');
    await close();
  });

  it.runIf(runsRest)(
    'reports why web-llm cannot be loaded without a network, and works without it',
    async () => {
      const { page, faults, close } = await browser.page({ url: site.url });
      await isReady(page);
      let refused = 0;
      await page.context().route(/huggingface|githubusercontent/, (route) => {
        refused += 1;
        return route.abort();
      });
      await page.getByRole('switch', { name: 'Compare with web-llm' }).check();
      await page.getByRole('button', { name: 'Load in web-llm' }).waitFor();
      expect(faults()).toEqual([]);
      expect(refused).toBe(0);
      const models = page.getByLabel("Model of web-llm's list");
      await expect.poll(() => models.locator('option').count()).toBeGreaterThan(50);
      await page.getByRole('button', { name: 'Load in web-llm' }).click();
      await page.getByText(/web-llm could not load/).waitFor();
      await page.getByText(/both must be reachable from this browser/).waitFor();
      expect(refused).toBeGreaterThan(0);
      const { prompt, text } = goldenOf('sum');
      expect(await (await sendPrompt(page, prompt)).locator('p').first().textContent()).toBe(text);
      await close();
    },
  );

  it.runIf(runsRest)(
    'reports that the Content-Security-Policy of the page blocks the servers of web-llm',
    async () => {
      const policy = "default-src 'none'; connect-src 'self'; script-src 'self' 'wasm-unsafe-eval'";
      const strict = await openStaticSite(built, {
        headers: {
          'content-security-policy': `${policy}; style-src 'self'; worker-src 'self'; img-src 'self'`,
        },
      });
      const { page, close } = await browser.page({ url: strict.url });
      await page.getByRole('switch', { name: 'Compare with web-llm' }).check();
      await page.getByRole('button', { name: 'Load in web-llm' }).click();
      await page
        .getByText(/The policy of this page \(Content-Security-Policy\) does not allow https:\/\/hugg/)
        .waitFor();
      await close();
      await strict.close();
    },
  );

  const browsers = [
    {
      userAgent: 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0',
      title: 'Your browser: Firefox 128 on Windows',
      words: ['since version 141', 'update Firefox', 'about:config', 'dom.webgpu.enabled'],
      dark: false,
    },
    {
      userAgent:
        'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15',
      title: 'Your browser: Safari 18 on macOS',
      words: ['since version 26', 'Show features for web developers', 'Feature Flags'],
      dark: true,
    },
    {
      userAgent:
        'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/149.0.0.0 Safari/537.36',
      title: 'Your browser: Chrome 149 on Linux',
      words: ['NVIDIA', 'Use graphics acceleration when available', 'chrome://flags/#enable-unsafe-webgpu'],
      dark: false,
    },
  ];
  it.each(everyNth(browsers, 3))(
    'says what to do without WebGPU in the words of the browser, and loads nothing: $title',
    async ({ userAgent, title, words, dark }) => {
      const { page, faults, close } = await browser.page({ url: 'about:blank', width: 360, dark });
      await page.addInitScript((text) => {
        Object.defineProperty(Navigator.prototype, 'gpu', { value: undefined });
        Object.defineProperty(Navigator.prototype, 'userAgent', { get: () => text });
      }, userAgent);
      const before = site.requestedPaths.length;
      await page.goto(site.url);
      const alert = page.getByRole('alert', { name: 'No WebGPU' });
      await alert.getByRole('heading', { name: title }).waitFor();
      const shownText = await alert.innerText();
      expect(shownText).toContain('this browser does not offer WebGPU');
      for (const text of words) expect(shownText).toContain(text);
      // The other browsers are folded.
      await expect.poll(() => alert.getByRole('group').count()).toBe(3);
      expect(await alert.locator('details[open]').count()).toBe(0);
      await alert.locator('summary').first().press('Enter');
      expect(await layoutFaults(page)).toEqual([]);
      expect(site.requestedPaths.slice(before).filter((path) => path.startsWith('models/'))).toEqual([]);
      expect(faults().filter((fault) => !fault.includes(site.url))).toEqual([]);
      await close();
    },
  );

  it('explains what to do when the browser finds no GPU', async () => {
    const without = await TestBrowser.open({ webgpu: false });
    const { page, faults, close } = await without.page({ url: site.url });
    const alert = page.getByRole('alert', { name: 'No WebGPU' });
    await alert.getByText('found no GPU for it').waitFor();
    await expect.poll(() => alert.innerText()).toContain('Use graphics acceleration when available');
    await alert.getByRole('button', { name: 'Try again' }).click();
    await alert.getByText('found no GPU for it').waitFor();
    expect(faults()).toEqual([]);
    await close();
    await without.close();
  });

  it('explains that plain HTTP from another machine is not a secure context', async () => {
    const { page, close } = await browser.page({ url: 'about:blank' });
    await page.route('http://lathe.test:8080/**', async (route) =>
      route.fulfill({
        response: await route.fetch({
          url: route.request().url().replace('http://lathe.test:8080/', site.url),
        }),
      }),
    );
    await page.goto('http://lathe.test:8080/');
    const alert = page.getByRole('alert', { name: 'No WebGPU' });
    await alert.waitFor();
    await expect.poll(() => alert.innerText()).toContain('ssh -L 8080:localhost:8080 lathe.test');
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await close();
  });
});
