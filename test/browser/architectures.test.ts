/** Models with layers other than attention and feed-forward, in a page: the same answers as on Node. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JSHandle } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { prepareChat } from '../../src/chat/index.ts';
import { loadEngine } from '../../src/engine/index.ts';
import { greedySampling } from '../../src/engine/types.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import type * as Lathe from '../../web/engine/index.ts';
import { noBrowser, TestBrowser, type WatchedPage } from '../support/browser.ts';
import { writeDemoSite } from '../support/demo-site.ts';
import { repository } from '../support/host.ts';
import { openStaticSite, type StaticSite } from '../support/static-site.ts';

const fixtures = join(repository, 'test/fixtures/architectures');
const names = ['qwen3moe', 'gpt-oss', 'lfm2', 'qwen3.5', 'gemma4'] as const;
/** Short prompts, and prompts of several pages that cross chunk and page boundaries. */
const questions = ['Who are you?', 'One two three.', 'a b c '.repeat(14)];
const longest = 12;
/** Tokens are compared up to the first where the two best are so close that rounding could decide. */
const minGap = 0.03;

const html = `<!doctype html><title>A page</title><link rel="icon" href="icon.svg" /><script type="module">
import * as lathe from './engine/lathe.js';
globalThis.lathe = lathe;
</script>`;

interface Expected {
  readonly content: string;
  /** The number of tokens that rounding cannot change. */
  readonly tokens: number;
  readonly text: string;
}

/** The answer of the engine on Node, up to the first uncertain token. */
async function expectedOf(model: string): Promise<Expected[]> {
  const engine = await loadEngine(nodePlatform(), { model });
  const found: Expected[] = [];
  for (const content of questions) {
    const { prompt, visible } = await prepareChat(engine, { messages: [{ role: 'user', content }] });
    const gaps: number[] = [];
    const request = { prompt, visible, maxTokens: longest, sampling: greedySampling, stop: [], logprobs: 2 };
    const tell = async (maxTokens: number): Promise<string> => {
      let text = '';
      for await (const event of engine.generate({ ...request, maxTokens })) {
        if (event.type !== 'text') continue;
        text += event.text;
        if (maxTokens < longest) continue;
        for (const { top } of event.logprobs ?? [])
          gaps.push((top[0]?.logprob ?? 0) - (top[1]?.logprob ?? 0));
      }
      return text;
    };
    const whole = await tell(longest);
    const near = gaps.findIndex((gap) => gap < minGap);
    const tokens = near < 0 ? gaps.length : near;
    if (tokens > 0) found.push({ content, tokens, text: tokens === longest ? whole : await tell(tokens) });
  }
  await engine.close();
  return found;
}

describe.skipIf(noBrowser !== undefined)(`models with other layer types in a page ${noBrowser ?? ''}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'lathe-architectures-'));
  let site: StaticSite;
  let browser: TestBrowser;
  let watched: WatchedPage;
  let lathe: JSHandle<typeof Lathe>;

  beforeAll(async () => {
    await writeDemoSite(folder);
    writeFileSync(join(folder, 'page.html'), html);
    for (const name of names) symlinkSync(join(fixtures, name, 'model.gguf'), join(folder, `${name}.gguf`));
    site = await openStaticSite(folder);
    browser = await TestBrowser.open();
    watched = await browser.page({ url: `${site.url}page.html` });
    lathe = (await watched.page.waitForFunction(
      () => (globalThis as { lathe?: typeof Lathe }).lathe,
    )) as JSHandle<typeof Lathe>;
  });
  afterAll(async () => {
    await browser?.close();
    await site?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it.each(names)('%s', async (name) => {
    const expected = await expectedOf(join(fixtures, name, 'model.gguf'));
    expect(expected.reduce((sum, { tokens }) => sum + tokens, 0)).toBeGreaterThan(8);
    const found = await lathe.evaluate(
      async ({ createChat }, { model, prompts }) => {
        const chat = await createChat({ model, cache: false });
        const texts: string[] = [];
        for (const { content, tokens } of prompts) {
          const { choices } = await chat.chat.completions.create({
            messages: [{ role: 'user', content }],
            temperature: 0,
            max_tokens: tokens,
            stream: false,
          });
          const { reasoning_content: thought = '', content: answerText } = choices[0].message;
          texts.push(`${thought}${answerText}`);
        }
        const { architecture } = chat.model;
        await chat.close();
        return { texts, architecture };
      },
      { model: `${site.url}${name}.gguf`, prompts: expected },
    );
    expect(found.texts).toEqual(expected.map(({ text }) => text));
    expect(watched.faults()).toEqual([]);
  });
});
