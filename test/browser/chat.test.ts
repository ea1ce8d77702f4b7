import { readFileSync } from 'node:fs';
import type { Page, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { layoutFaults } from '../support/accessibility.ts';
import { noBrowser } from '../support/browser.ts';
import { type Console, openConsole } from '../support/console.ts';

const markdown = `# Result

The *sum* of **two** numbers with \`a + b\`, see [the manual](https://example.com/manual) &amp; more.

1. first
2. second
   - nested

| name | value |
| ---- | ----: |
| a<br>b | 1 |

\`\`\`js
const sum = (a, b) => a + b; // adds
\`\`\`

> quoted

<img src="https://example.com/x.png" onerror="alert(1)"> <script>alert(1)</script>

![a picture](https://example.com/y.png) and [bad](javascript:alert(1)) and [relative](/docs)
`;

const messageBox = (page: Page) => page.getByLabel('Message', { exact: true });
const answers = (page: Page) => page.getByRole('article', { name: 'Answer' });
const complete = (page: Page) => page.getByText('The answer is complete.').waitFor();

async function say(page: Page, text: string): Promise<void> {
  await messageBox(page).fill(text);
  await messageBox(page).press('Enter');
}

/** Records the bodies of completions, which the browser does not show of a request that the page may send twice. */
const recordBodies = (page: Page) =>
  page.evaluate(`{
    const { fetch } = window;
    window.fetch = async (request) => {
      if (request.url.endsWith('/v1/chat/completions')) window.sentBody = await request.clone().json();
      return fetch(request);
    };
  }`);

/** Answers a completion with these events of a stream. */
const streamed = (route: Route, events: readonly object[]) =>
  route.fulfill({
    contentType: 'text/event-stream',
    body: `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`,
  });
const chunk = (delta: object, finishReason: string | null = null) => ({
  model: 'scripted',
  choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
});

describe.skipIf(noBrowser !== undefined)(`the chat view ${noBrowser ?? ''}`, () => {
  let host: Console;
  beforeAll(async () => {
    host = await openConsole({ script: { says: markdown.match(/[\s\S]{1,7}/g) ?? [] } });
  });
  afterAll(() => host?.end());

  it.each([
    [1440, false],
    [360, true],
  ])('renders Markdown safely and accessibly (%i px wide, dark: %s)', async (width, dark) => {
    const { page, faults, close } = await host.view('chat', { width, dark });
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await say(page, 'Add two numbers.');
    await complete(page);
    const answer = answers(page);
    await answer.getByRole('heading', { name: 'Result' }).waitFor();
    await answer.getByRole('cell', { name: 'a b' }).waitFor();
    expect(await answer.locator('ol > li').count()).toBe(2);
    expect(await answer.locator('ol > li > ul > li').count()).toBe(1);
    expect(await answer.locator('strong, em, blockquote, p code').allTextContents()).toEqual([
      'sum',
      'two',
      'a + b',
      'quoted',
    ]);
    expect(await answer.getByText('& more').count()).toBe(1);
    const links = answer.getByRole('link');
    expect(
      await links.evaluateAll((all) => all.map((one) => [one.getAttribute('href'), one.getAttribute('rel')])),
    ).toEqual([
      ['https://example.com/manual', 'noopener noreferrer nofollow'],
      ['https://example.com/y.png', 'noopener noreferrer nofollow'],
    ]);
    expect(await answer.locator('img, script').count()).toBe(0);
    await answer.getByText('<script>alert(1)</script>').waitFor();

    const code = answer.getByRole('figure');
    await code.locator('.tok-keyword').getByText('const').waitFor();
    await code.getByText('js', { exact: true }).waitFor();
    await code.getByRole('button', { name: 'Copy code' }).click();
    const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
    expect(await clipboard()).toBe('const sum = (a, b) => a + b; // adds');
    await answer.getByRole('button', { name: 'Copy answer' }).click();
    expect(await clipboard()).toBe(markdown);
    const measures = answer.getByRole('list', { name: 'Usage and speed' });
    await expect.poll(() => measures.textContent()).toMatch(/prompt tokens.*completion tokens.*tokens\/s/);
    expect(await layoutFaults(page)).toEqual([]);
    // No request to another server, no exception, no violation of the policy.
    expect(faults()).toEqual([]);
    await close();
  });

  it('keeps versions of messages and answers, and the history of this browser', async () => {
    const { page, faults, close } = await host.view('chat?temperature=0.5');
    const questions = page.getByRole('article', { name: 'Your message' });
    await page.getByText('Settings', { exact: true }).click();
    await page.getByLabel('System prompt').fill('Be brief.');
    await page.getByLabel('Max tokens').fill('100');
    await recordBodies(page);
    await say(page, 'The first question');
    await complete(page);
    expect(await page.evaluate('window.sentBody')).toMatchObject({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'The first question' },
      ],
      temperature: 0.5,
      max_tokens: 100,
    });
    await answers(page).getByRole('button', { name: 'Regenerate' }).click();
    await answers(page).getByText('2/2').waitFor();
    await answers(page).getByRole('button', { name: 'Previous version of the answer' }).press('Enter');
    await answers(page).getByText('1/2').waitFor();
    expect(await page.evaluate('document.activeElement.ariaLabel'), 'the focus stays').toMatch(
      /^Previous version/,
    );
    await answers(page).getByRole('button', { name: 'Compare' }).click();
    const compared = answers(page).getByRole('region', { name: /^Version \d: scripted, temperature 0.5/ });
    await expect.poll(() => compared.getByRole('heading', { name: 'Result' }).count()).toBe(2);
    await answers(page).getByRole('button', { name: 'Compare' }).click();
    await expect.poll(() => compared.count()).toBe(0);
    await questions.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('textbox', { name: 'Your message' }).fill('The other question');
    await page.getByRole('button', { name: 'Resend' }).press('Enter');
    await questions.getByText('2/2').waitFor();
    await complete(page);
    expect(await answers(page).getByText('1/2').count(), 'the other message has one answer').toBe(0);
    await questions.getByRole('button', { name: 'Previous version of the message' }).press('Enter');
    await questions.getByText('The first question').waitFor();
    await answers(page).getByText('1/2').waitFor();

    // Another view and back, then a reload: the address, the system prompt and the versions are still there.
    const views = page.getByRole('navigation', { name: /views/i });
    const address = page.url();
    expect(address).toMatch(/\/console\/chat\/\w+\?.*temperature=0\.5/);
    await views.getByRole('link', { name: 'Tasks' }).click();
    await page.getByRole('heading', { level: 1, name: 'Tasks' }).waitFor();
    await views.getByRole('link', { name: 'Chat' }).click();
    await questions.getByText('The first question').waitFor();
    expect(page.url()).toBe(address);
    await page.reload();
    await answers(page).getByText('1/2').waitFor();
    await page.getByText('Settings', { exact: true }).click();
    expect(await page.getByLabel('System prompt').inputValue()).toBe('Be brief.');

    const list = page.getByRole('list', { name: 'Chats' });
    await list.getByRole('button', { name: 'Rename' }).click();
    await page.getByLabel('Title').fill('Two questions');
    await page.getByLabel('Title').press('Enter');
    const exported = async (name: string) => {
      const download = page.waitForEvent('download');
      await list.getByRole('button', { name }).click();
      const file = await download;
      return [file.suggestedFilename(), readFileSync(await file.path(), 'utf8')] as const;
    };
    expect(await exported('Export as Markdown')).toEqual([
      'two-questions.md',
      `# Two questions\n\n## System\n\nBe brief.\n\n## User\n\nThe first question\n\n## Assistant\n\n${markdown}\n`,
    ]);
    const [name, json] = await exported('Export as JSON');
    expect(name).toBe('two-questions.json');
    expect((JSON.parse(json) as { turns: object[] }).turns).toMatchObject([
      { id: 1, parent: 0, role: 'user', content: 'The first question' },
      { id: 2, parent: 1, role: 'assistant', content: markdown, finish_reason: 'stop' },
      { id: 3, parent: 1, role: 'assistant', content: markdown },
      { id: 4, parent: 0, role: 'user', content: 'The other question' },
      { id: 5, parent: 4, role: 'assistant', content: markdown },
    ]);

    await page.getByRole('button', { name: 'New chat' }).click();
    await say(page, 'Another chat');
    await complete(page);
    await expect.poll(() => list.getByRole('link').count()).toBe(2);
    await list.getByRole('link', { name: /Two questions/ }).click();
    await questions.getByText('The first question').waitFor();
    await list.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await expect
      .poll(() => list.getByRole('link').allTextContents())
      .toEqual([expect.stringMatching(/^Another chat/)]);
    await page.reload();
    await list.getByRole('link', { name: /Another chat/ }).waitFor();

    // Without a history, nothing is left after a reload.
    await page.getByLabel('Keep chats in this browser').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await expect.poll(() => page.getByLabel('Keep chats in this browser').isChecked()).toBe(false);
    await page.reload();
    await page.getByText('No chats yet.').waitFor();
    expect(await page.getByLabel('Keep chats in this browser').isChecked()).toBe(false);
    expect(faults()).toEqual([]);
    await close();
  });

  it('folds reasoning and tool calls, and shows an error once, with a retry', async () => {
    const { page, faults, close } = await host.view('chat', { width: 360 });
    const error = { message: 'The device was lost.', code: 'device_lost' };
    let replies: (object & { error?: object })[] = [chunk({ content: 'Half of' }), { error }];
    await page.route('**/v1/chat/completions', (route) => streamed(route, replies));
    await say(page, 'What is the weather?');
    await answers(page).getByText('Half of').waitFor();
    expect(await page.getByText('The device was lost.').count()).toBe(1);
    const call = {
      index: 0,
      id: 'call_1',
      type: 'function',
      function: { name: 'weather', arguments: '{"ci' },
    };
    replies = [
      chunk({ reasoning_content: 'The user **wants** ' }),
      chunk({ reasoning_content: 'the weather.' }),
      chunk({ tool_calls: [call] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: 'ty":"Paris"}' } }] }),
      chunk({}, 'tool_calls'),
    ];
    await answers(page).getByRole('button', { name: 'Try again' }).click();
    await complete(page);
    expect(await page.getByText('The device was lost.').count()).toBe(0);
    await expect.poll(() => answers(page).getByText('the weather.').isVisible()).toBe(false);
    await answers(page).getByText('Reasoning').press('Enter');
    await answers(page).getByText('the weather.').waitFor();
    await answers(page)
      .getByText(/Tool call/)
      .press('Enter');
    const shown = answers(page).getByRole('region', { name: 'Arguments of weather' });
    await expect.poll(() => shown.textContent()).toBe('{\n  "city": "Paris"\n}');
    expect(await layoutFaults(page)).toEqual([]);

    // The user writes the result; the model gets the call with it.
    replies = [chunk({ content: 'It rains.' }), chunk({}, 'stop')];
    await recordBodies(page);
    await answers(page).getByLabel('Result of weather').fill('rain');
    await answers(page).getByRole('button', { name: 'Send the result' }).press('Enter');
    await answers(page).getByText('It rains.').waitFor();
    expect(await page.evaluate('window.sentBody.messages')).toEqual([
      { role: 'user', content: 'What is the weather?' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
    ]);
    const results = page.getByRole('article', { name: 'Tool results' });
    await results.getByText('Result of').press('Enter');
    await results.getByText('rain', { exact: true }).waitFor();
    expect(faults()).toEqual([]);
    await close();
  });

  it('renders formulas as MathML while they stream, and none of their text as HTML', async () => {
    const { page, faults, close } = await host.view('chat', { width: 360, dark: true });
    const replies = [
      chunk({ content: 'The root of $x^2 = 2$ is \\(\\sqrt{2}\\); it costs $5 and $6.\n\n' }),
      chunk({
        content: '$$\n\\sum_{i=1}^n \\frac{1}{i^2} + a_1 + a_2 + a_3 + a_4 + a_5 + a_6 + a_7 + a_8 + a_9',
      }),
      chunk({ content: '\n$$\n\nNo links: $\\href{javascript:alert(1)}{x}$, no HTML: ' }),
      chunk({ content: '$\\text{<img src=x onerror=alert(1)>}$, open: $x + ' }),
      chunk({}, 'stop'),
    ];
    await page.route('**/v1/chat/completions', (route) => streamed(route, replies));
    await say(page, 'Some math.');
    await complete(page);
    const answer = answers(page);
    await expect.poll(() => answer.locator('math').count()).toBe(4);
    expect(await answer.locator('math msqrt').count()).toBe(1);
    expect(await answer.getByRole('region', { name: 'Formula' }).locator('munderover').count()).toBe(1);
    await answer.getByText('it costs $5 and $6.').waitFor();
    await answer.getByText('$\\href{javascript:alert(1)}{x}$').waitFor();
    await answer.getByText('open: $x +').waitFor();
    await expect
      .poll(() => answer.locator('math mtext').allTextContents())
      .toContainEqual(expect.stringContaining('<img'));
    expect(await answer.locator('img, a, script').count()).toBe(0);
    expect(await layoutFaults(page)).toEqual([]);
    expect(faults()).toEqual([]);
    await close();
  });

  it('shares the chats between tabs, and loses no message that both send', async () => {
    const { page, faults, close } = await host.view('chat');
    const other = await page.context().newPage();
    await other.goto(page.url());
    await say(page, 'A question of the first tab');
    await complete(page);
    const listed = other.getByRole('link', { name: /A question of the first tab/ });
    await listed.waitFor();
    await listed.click();
    await other.getByRole('heading', { name: 'Result' }).waitFor();

    // Both tabs go on with the same chat at the same time.
    await Promise.all([say(page, 'More in one'), say(other, 'More in two')]);
    await Promise.all([complete(page), complete(other)]);
    await page.reload();
    const questions = page.getByRole('article', { name: 'Your message' });
    const shown = () => questions.last().textContent();
    await expect.poll(shown).toMatch(/More in (?:one|two).*[12]\/2/);
    const first = await shown();
    const isSecond = first?.includes('2/2') === true;
    await questions
      .last()
      .getByRole('button', { name: `${isSecond ? 'Previous' : 'Next'} version of the message` })
      .click();
    await expect.poll(shown).toMatch(first?.includes('one') ? /More in two/ : /More in one/);

    // A chat that one tab deletes is not written again by the other.
    await page.getByRole('list', { name: 'Chats' }).getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await other.getByText('Chat not found').waitFor();
    await other.goto(`${host.url}/console/chat`);
    await other.getByText('No chats yet.').waitFor();
    expect(faults()).toEqual([]);
    await close();
  });
});

describe.skipIf(noBrowser !== undefined)(`a long answer in the chat view ${noBrowser ?? ''}`, () => {
  let host: Console;
  beforeAll(async () => {
    host = await openConsole({ script: { says: Array<string>(3000).fill('word\n\n'), delayMs: 20 } });
  });
  afterAll(() => host?.end());

  it('is followed only while the reader is at the end, and goes on while another view is shown', async () => {
    const { page, faults, close } = await host.view('chat', { height: 600 });
    await say(page, 'Go on and on.');
    const paragraphs = () => answers(page).locator('p').count();
    const scrolled = () => page.evaluate(() => scrollY);
    const toEnd = page.getByRole('button', { name: 'Go to the end' });
    await expect.poll(scrolled).toBeGreaterThan(200);
    expect(await toEnd.count()).toBe(0);
    await page.mouse.move(600, 200);
    await page.mouse.wheel(0, -150);
    await toEnd.waitFor();
    const at = await scrolled();
    const before = await paragraphs();
    await expect.poll(paragraphs).toBeGreaterThan(before + 10);
    expect(await scrolled(), 'the page stays where the reader is').toBe(at);
    await toEnd.press('Enter');
    await expect.poll(scrolled).toBeGreaterThan(at + 150);
    await expect.poll(() => toEnd.count()).toBe(0);

    const views = page.getByRole('navigation', { name: /views/i });
    const left = await paragraphs();
    await views.getByRole('link', { name: 'Tasks' }).click();
    await page.getByRole('heading', { level: 1, name: 'Tasks' }).waitFor();
    await views.getByRole('link', { name: 'Chat' }).click();
    await expect.poll(paragraphs).toBeGreaterThan(left + 10);

    // What had arrived when the page was closed is not lost.
    await page.reload();
    await page.getByText('stopped: the page was closed').waitFor();
    await say(page, 'Once more.');
    await expect.poll(() => answers(page).last().locator('p').count()).toBeGreaterThan(3);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('stopped by you').waitFor();
    // The next message can be written at once.
    await page.getByRole('button', { name: 'Send' }).waitFor();
    expect(faults()).toEqual([]);
    await close();
  });
});
