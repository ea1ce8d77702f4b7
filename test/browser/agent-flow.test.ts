import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noBrowser } from '../support/browser.ts';
import { type Console, openConsole, rewrite, rewriteLine } from '../support/console.ts';
import { freshDataDir } from '../support/host.ts';
import { type OpenAiScript, scriptedOpenAi } from '../support/scripted-openai.ts';

/** Markup in texts of models and people. If it is not treated as text, it creates elements and a fault. */
const markup = '<img src=x onerror="owned()"><h6>b</h6> &amp;';
const written = `# Notes\n${markup}\n\tzwei – 2  \n\nno end of a line`;
const toRead = `a file says ${markup}\n`;

/** Keyed by a word of the prompt, with an answer for each turn. */
const model: OpenAiScript = ({ body: { messages } }) => {
  const lastUserText = messages.findLast(({ role }) => role === 'user')?.content ?? '';
  const turn = messages.filter(({ role }) => role === 'tool').length;
  if (lastUserText.includes('HANG')) return { hang: true };
  const turns = {
    READ: [{ calls: [{ name: 'fs_read', arguments: { path: 'read.txt' } }] }],
    WRITE: [
      {
        calls: [
          { name: 'fs_write', arguments: { path: 'notes.md', content: written, intent: `for ${markup}` } },
        ],
      },
    ],
    DRAFT: [{ text: `a draft, ${markup}` }],
    IMPROVE: [{ text: `better by ${/by (\w+)/.exec(lastUserText)?.[1] ?? '?'}` }],
  };
  const [, steps = []] = Object.entries(turns).find(([word]) => lastUserText.includes(word)) ?? [];
  return steps[turn] ?? { text: `the answer is ${markup}` };
};

const workflow = (agent: string) => `[ensemble]
name = "gated"
description = ${JSON.stringify(markup)}

[inputs.topic]
type = "string"
required = true

[agents.writer]
instructions = "You write."
model = "scripted"

[[steps]]
id = "draft"
agent = "${agent}"
prompt = "DRAFT {{inputs.topic}}"

[[steps]]
id = "final"
needs = ["draft"]
agent = "writer"
prompt = "IMPROVE by {{gate.remarks}}"
[steps.gate]
kind = "input"
message = "{{steps.draft.output}}"
[steps.gate.schema]
type = "object"
required = ["remarks"]
properties = { remarks = { type = "string" } }

[output]
from = "final"
`;

describe.skipIf(noBrowser !== undefined)(`agents in a browser ${noBrowser ?? ''}`, () => {
  const folder = join(freshDataDir(), 'work');
  const notes = join(folder, 'notes.md');
  let gateway: Awaited<ReturnType<typeof scriptedOpenAi>>;
  let host: Console;
  beforeAll(async () => {
    mkdirSync(folder);
    writeFileSync(join(folder, 'read.txt'), toRead);
    gateway = await scriptedOpenAi(model);
    const dataDir = freshDataDir();
    const config = join(dataDir, 'host.toml');
    writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n`);
    host = await openConsole({ dataDir, args: ['--config', config, '--enable-workflow', 'gated'] });
    await host.send('POST', '/agent/v1/agents', {
      name: 'writer',
      instructions: 'You write.',
      model: 'scripted',
      grants: { tools: ['fs_read', 'fs_write'], read: [folder], write: [folder] },
    });
  });
  afterAll(async () => {
    await host?.end();
    await gateway?.close();
  });

  /** The ID of a change that a task staged. */
  const staged = async (): Promise<string> => {
    const response = await fetch(`${host.url}/agent/v1/tasks`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ agent: 'writer', prompt: 'WRITE', cwd: folder }),
    });
    return /"pending_id":"(p\d+)"/.exec(await response.text())?.[1] ?? '';
  };
  /** The markup is shown as text: it created no element. */
  const isText = async (page: Page) => {
    await page.getByText(markup).first().waitFor();
    await expect.poll(() => page.locator('img[src="x"], h6').count()).toBe(0);
  };

  it('stages a write of a task, shows its diff, and writes exactly that after approval', async () => {
    writeFileSync(notes, '# Notes\nold\n');
    const { page, faults, close } = await host.view('tasks');
    await page.getByLabel('Agent', { exact: true }).selectOption('writer');
    await page.getByLabel('Prompt').fill(`WRITE ${markup}`);
    await page.getByLabel('Working folder').fill(folder);
    await page.getByRole('button', { name: 'Start the task' }).click();
    const events = page.getByRole('list', { name: 'Events of the task' });
    await events.getByText('the answer is').waitFor();
    await isText(page);
    expect(readFileSync(notes, 'utf8')).toBe('# Notes\nold\n');

    await events.getByRole('link', { name: /^Review p\d+: nothing changes until you approve it/ }).click();
    const diff = page.getByRole('region', { name: /^Diff of p\d+$/ });
    await diff.waitFor();
    const lines = await diff.locator('span').allTextContents();
    expect(lines).toEqual(expect.arrayContaining([' # Notes', '-old', `+${markup}`, '+\tzwei – 2  ']));
    await isText(page);
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('The change was applied.').waitFor();
    expect(readFileSync(notes, 'utf8')).toBe(written);
    await page.getByRole('link', { name: 'Other pending changes' }).click();
    await page.getByText('No changes are pending.').waitFor();
    expect(faults()).toEqual([]);
    await close();
  });

  it('shows tool results and session titles as text', async () => {
    const { page, faults, close } = await host.view('tasks');
    await page.getByLabel('Agent', { exact: true }).selectOption('writer');
    await page.getByLabel('Prompt').fill(`READ ${markup}`);
    await page.getByLabel('Working folder').fill(folder);
    await page.getByRole('button', { name: 'Start the task' }).click();
    const events = page.getByRole('list', { name: 'Events of the task' });
    await events.getByText('the answer is').waitFor();
    await events.locator('summary', { hasText: 'fs_read' }).click();
    const result = page.getByRole('region', { name: 'Result of fs_read' });
    await result.waitFor();
    await expect.poll(() => result.textContent()).toBe(toRead);
    await isText(page);

    await page.getByRole('link', { name: 'Session and signed receipt' }).click();
    await page.getByRole('heading', { level: 1, name: `READ ${markup}` }).waitFor();
    await isText(page);
    await page.getByRole('link', { name: 'All sessions' }).click();
    await page
      .getByRole('table', { name: 'Sessions' })
      .getByRole('link', { name: `READ ${markup}` })
      .waitFor();
    await isText(page);
    expect(faults()).toEqual([]);
    await close();
  });

  it('goes on with a task that has ended, and stops one that runs', async () => {
    const { page, faults, close } = await host.view('tasks');
    await page.getByLabel('Agent', { exact: true }).selectOption('writer');
    await page.getByLabel('Prompt').fill('Hello.');
    await page.getByRole('button', { name: 'Start the task' }).click();
    const events = page.getByRole('list', { name: 'Events of the task' });
    await events.getByText('the answer is').waitFor();
    await page.getByLabel('Message').fill(`More ${markup}`);
    await page.getByRole('button', { name: 'Send' }).click();
    await events.getByText(`More ${markup}`).waitFor();
    await expect.poll(() => events.getByText('the answer is').count()).toBe(2);
    await isText(page);
    await page.getByLabel('Message').fill('HANG');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('button', { name: 'Stop the task' }).click();
    await events.getByText('The task was stopped.').waitFor();
    await page.getByLabel('Message').waitFor();
    expect(faults()).toEqual([]);
    await close();
  });

  it('reports that a file has changed since, leaves it, and discards the change with a note', async () => {
    writeFileSync(notes, 'as it was\n');
    const id = await staged();
    const { page, faults, close } = await host.view(`pending/${id}`);
    await page.getByRole('region', { name: `Diff of ${id}` }).waitFor();
    writeFileSync(notes, 'somebody else was here\n');
    await page.getByRole('button', { name: 'Approve' }).click();
    const refusal = page.getByRole('alert');
    await refusal.waitFor();
    await expect.poll(() => refusal.textContent()).toMatch(/notes\.md.*409 · base_moved/s);
    await page.getByRole('note').getByText(`${id} stays staged.`).waitFor();
    expect(readFileSync(notes, 'utf8')).toBe('somebody else was here\n');

    await page.getByRole('button', { name: 'Discard ...' }).click();
    const dialog = page.getByRole('dialog', { name: `Discard ${id}?` });
    await dialog.getByLabel('Note (optional)').fill(`too late ${markup}`);
    await dialog.getByRole('button', { name: 'Discard' }).click();
    await page.getByText('The change was discarded. Nothing was changed.').waitFor();
    expect(readFileSync(notes, 'utf8')).toBe('somebody else was here\n');
    await page.getByRole('link', { name: 'Action journal', exact: true }).click();
    await page.getByText(`too late ${markup}`).waitFor();
    await isText(page);
    // Chromium logs the refusal; that is not a fault.
    expect(faults().filter((fault) => !/status of 409/.test(fault))).toEqual([]);
    await close();
  });

  it('lints a workflow at its line, stores it, runs it, and accepts the input of a person at its gate', async () => {
    const { page, faults, close } = await host.view('workflows');
    await page.getByRole('link', { name: 'New workflow' }).click();
    const editor = page.getByRole('textbox', { name: 'Source of the workflow, TOML' });
    await editor.waitFor();
    const source = workflow('nobody');
    await rewrite(editor, source);
    const line = source.split('\n').indexOf('agent = "nobody"') + 1;
    const findings = page.getByRole('list', { name: /^Source of the workflow, TOML: \d findings?$/ });
    const finding = findings.getByRole('button', { name: /error.*nobody/ });
    await finding.click();
    await expect.poll(() => finding.textContent()).toMatch(new RegExp(`^${line}:9`));
    const marked = page.locator('.cm-line', { has: page.locator('.cm-lintRange-error') });
    expect(await marked.allTextContents()).toEqual(['agent = "nobody"']);
    await expect.poll(() => page.locator('.cm-lintRange-error').textContent()).toBe('"nobody"');
    await page.getByText(/it cannot be stored yet/).waitFor();

    await rewriteLine(editor, line, source.split('\n').length, 'agent = "writer"');
    await page.getByText(/^No errors(?:, .*)?\.$/).waitFor();
    await expect.poll(() => marked.count()).toBe(0);
    await page.getByRole('button', { name: 'Store as gated' }).click();
    await page.getByRole('heading', { level: 1, name: 'Workflow gated' }).waitFor();
    const kept = await host.send<{ source: string }>('GET', '/agent/v1/workflows/gated');
    expect(kept.source).toBe(workflow('writer'));
    await isText(page);

    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByLabel('topic (required)').and(page.locator('[aria-invalid="true"]')).waitFor();
    await page.getByLabel('topic (required)').fill(markup);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    const gate = page.getByRole('region', { name: 'Step final: input required' });
    await gate.getByText(`a draft, ${markup}`).waitFor();
    await isText(page);
    await gate.getByLabel('remarks (required)').fill('stars');
    await gate.getByRole('button', { name: 'Send and resume' }).click();
    const result = page.getByRole('region', { name: 'Result of the run' });
    await result.waitFor();
    await expect.poll(() => result.textContent()).toBe('better by stars');
    await gate.waitFor({ state: 'detached' });
    const state = page.getByRole('region', { name: 'This run' }).getByRole('status').first();
    await expect.poll(() => state.textContent()).toBe('done');
    await page.getByRole('list', { name: 'Events of the run' }).getByText('Run done').waitFor();
    expect(faults()).toEqual([]);
    await close();
  });

  it('cancels a waiting run', async () => {
    const stored = await fetch(`${host.url}/agent/v1/workflows/gated`);
    if (stored.status === 404) await host.send('POST', '/agent/v1/workflows', workflow('writer'));
    const { page, faults, close } = await host.view('workflows/gated');
    await page.getByLabel('topic (required)').fill('none');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    const gate = page.getByRole('region', { name: 'Step final: input required' });
    await gate.waitFor();
    const own = page.getByRole('region', { name: 'This run' });
    await own.getByRole('button', { name: 'Cancel the run' }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel this run?' });
    await dialog.getByRole('button', { name: 'Cancel the run' }).click();
    await gate.waitFor({ state: 'detached' });
    await expect.poll(() => own.getByRole('status').first().textContent()).toBe('cancelled');
    await page.getByRole('link', { name: 'All runs' }).click();
    const runs = await host.send<{ id: string; state: string }[]>('GET', '/agent/v1/workflows/runs');
    expect(runs[0]?.state).toBe('cancelled');
    await page
      .getByRole('row', { name: /cancelled/ })
      .getByText(runs[0]?.id ?? '')
      .waitFor();
    expect(faults()).toEqual([]);
    await close();
  });
});
