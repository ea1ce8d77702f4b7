import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { type PageOptions, TestBrowser, type WatchedPage } from './browser.ts';
import { buildHost, freshDataDir, startHost, startScriptedHost } from './host.ts';

/** Paths of the views, below `/console/`. */
export const consoleViews = [
  '',
  'chat',
  'models',
  'lab',
  'lab/kernels',
  'lab/bench',
  'lab/configs',
  'tasks',
  'pending',
  'workflows',
  'runs',
  'sessions',
  'observe',
  'observe/explore',
  'recorder',
];

/** Whether a view needs the bearer token on loopback, too. */
export const isProtectedView = (path: string): boolean => /^(?:observe|recorder)\b/.test(path);

type View = Omit<PageOptions, 'url'>;

interface Options {
  readonly args?: readonly string[];
  readonly dataDir?: string;
  /** Uses a scripted engine instead of the embedded model; passed to test/support/scripted-host.ts. */
  readonly script?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a host process with a model, and a browser for its console. */
export async function openConsole({ args = [], dataDir = freshDataDir(), script, env }: Options = {}) {
  buildHost();
  const all = ['--gpu', '--port', '0', '--data-dir', dataDir, ...args];
  const host = script ? startScriptedHost(all, script, env) : startHost(all, env);
  const [url, browser] = await Promise.all([host.url(), TestBrowser.open()]).catch(async (error: unknown) => {
    await host.end();
    throw error;
  });
  return {
    url,
    dataDir,
    token: readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim(),
    /** @param path below `/console/` */
    view: (path: string, options: View = {}): Promise<WatchedPage> =>
      browser.page({ ...options, url: `${url}/console/${path}` }),
    /** Calls the API to prepare the state that a test needs. */
    async send<Answer = unknown>(method: string, path: string, body?: unknown): Promise<Answer> {
      const response = await fetch(url + path, {
        method,
        headers: { 'content-type': typeof body === 'string' ? 'text/plain' : 'application/json' },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return (text === '' ? undefined : JSON.parse(text)) as Answer;
    },
    async end() {
      await browser.close();
      await host.end();
    },
  };
}

export type Console = Awaited<ReturnType<typeof openConsole>>;

/** Enters the bearer token in the sign-in dialog. */
export async function signIn(page: Page, token: string): Promise<void> {
  const dialog = page.getByRole('dialog', { name: /bearer token/ });
  await dialog.getByLabel('Bearer token').fill(token);
  await dialog.getByRole('button', { name: 'Sign in' }).click();
}

/** Replaces the whole content of an editor. */
export async function rewrite(editor: Locator, text: string): Promise<void> {
  await editor.click();
  await editor.press('ControlOrMeta+a');
  await editor.page().keyboard.insertText(text);
}

/**
 * Overwrites a line of an editor with `of` lines. It uses the keyboard, because CodeMirror renders only visible lines.
 */
export async function rewriteLine(editor: Locator, line: number, of: number, text: string): Promise<void> {
  await editor.click();
  const isNearEnd = line > of / 2;
  await editor.press(isNearEnd ? 'ControlOrMeta+End' : 'ControlOrMeta+Home');
  const steps = isNearEnd ? of - line : line - 1;
  for (let step = 0; step < steps; step++) await editor.press(isNearEnd ? 'ArrowUp' : 'ArrowDown');
  await editor.press('End');
  await editor.press('Shift+Home');
  // Twice: the first press selects only to the start of the line's text.
  await editor.press('Shift+Home');
  // On a slow machine the browser's selection follows the editor's with a delay, and text is inserted at the browser's.
  const page = editor.page();
  const active = page.locator('.cm-line.cm-activeLine');
  const selected = () => page.evaluate('String(getSelection())');
  await expect.poll(async () => (await selected()) === (await active.textContent())).toBe(true);
  await page.keyboard.insertText(text);
  await expect.poll(() => active.textContent()).toBe(text);
}
