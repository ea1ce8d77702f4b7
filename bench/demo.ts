/**
 * `npm run bench:demo [RUNS]`: from the navigation to the first text of an answer in the demo, with the embedded model, in
 * Chromium with an empty cache each time. Prints when each phase began, in ms after the navigation.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { TestBrowser } from '../test/support/browser.ts';
import { writeDemoSite } from '../test/support/demo-site.ts';
import { openStaticSite } from '../test/support/static-site.ts';
import { median } from './statistics.ts';

type Phase = readonly [ms: number, name: string];

/** Runs in the page: records phases, sends a message when the model is ready, and waits for its first text. */
const watch = `
  window.phases = [];
  const seen = new Set();
  const note = (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    window.phases.push([Math.round(performance.now()), name]);
  };
  new MutationObserver(() => {
    const status = [...document.querySelectorAll('[role=status]')].map(({ textContent }) => textContent).find((text) => text.startsWith('Loading'));
    if (status) note(status.replace(/^.*: /, ''));
    const box = document.querySelector('textarea#prompt');
    const isReady = [...document.querySelectorAll('span')].some(({ textContent }) => textContent === 'Ready');
    if (isReady && box && !seen.has('ready')) {
      note('ready');
      Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(box, 'Who are you?');
      box.dispatchEvent(new Event('input', { bubbles: true }));
      setTimeout(() => box.form.requestSubmit());
    }
    if (document.querySelector('article[aria-label="Answer of lathe"] p:not([class])')) note('first token');
  }).observe(document, { subtree: true, childList: true, characterData: true });
`;

const folder = mkdtempSync(join(tmpdir(), 'lathe-bench-demo-'));
await writeDemoSite(join(folder, 'site'));
const site = await openStaticSite(join(folder, 'site'));
const totals: number[] = [];
for (let run = 1; run <= Number(process.argv[2] ?? 5); run += 1) {
  const browser = await TestBrowser.open();
  const { page } = await browser.page({ url: 'about:blank' });
  await page.addInitScript(watch);
  await page.goto(site.url);
  let phases: readonly Phase[] = [];
  let total: number | undefined;
  while (total === undefined) {
    await setTimeout(200);
    phases = await page.evaluate<readonly Phase[]>('window.phases');
    total = phases.find(([, name]) => name === 'first token')?.[0];
  }
  totals.push(total);
  process.stdout.write(`run ${run}: ${phases.map(([ms, name]) => `${name} ${ms}`).join(', ')}\n`);
  await browser.close();
}
process.stdout.write(
  `first token: median ${Math.round(median(totals))} ms, slowest ${Math.max(...totals)} ms\n`,
);
await site.close();
rmSync(folder, { recursive: true, force: true });
