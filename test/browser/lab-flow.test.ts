import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noBrowser } from '../support/browser.ts';
import { type Console, openConsole, rewriteLine } from '../support/console.ts';

const right = '  let start = token * params.columns;';
const wrong = '  let start = token * ;';
const slot = 'layers.*.attn.norm';

interface Report {
  readonly accepted: boolean;
}

describe.skipIf(noBrowser !== undefined)(`the lab in a browser ${noBrowser ?? ''}`, () => {
  let host: Console;
  let stub: string;
  beforeAll(async () => {
    host = await openConsole();
    const { source } = await host.send<{ source: string }>('GET', '/lab/v1/ops/rms_norm/stub?target=plain');
    stub = source;
  });
  afterAll(() => host?.end());

  const bound = async () => {
    const { components } = await host.send<{ components: { id: string; kernel: string }[] }>(
      'GET',
      '/lab/v1/parts',
    );
    return components.flatMap(({ id, kernel }) => (kernel.startsWith('builtin') ? [] : [`${id} ${kernel}`]));
  };
  const register = async (name: string, source = stub) => {
    const body = { name, op: 'rms_norm', source, dispatch: { x: 'tokens' }, overrides: { WG: 64 } };
    expect(await host.send<Report>('POST', '/lab/v1/kernels', body)).toMatchObject({ accepted: true });
  };
  const bind = (kernel: string, ...components: string[]) =>
    host.send('POST', '/lab/v1/bindings', { kernel, components });

  it('marks an error at its line, accepts the corrected kernel, and binds it with a click', async () => {
    const { page, faults, close } = await host.view('lab/kernels');
    await page.getByLabel('Op', { exact: true }).selectOption('rms_norm');
    const editor = page.getByRole('textbox', { name: 'WGSL of the kernel for rms_norm' });
    await editor.waitFor();
    // The workbench adds a `//!` line with the name.
    const line = stub.split('\n').indexOf(right) + 2;
    const lines = stub.split('\n').length + 1;
    const column = wrong.indexOf(';') + 1;
    expect(line).toBeGreaterThan(2);

    await rewriteLine(editor, line, lines, wrong);
    await page.getByRole('button', { name: 'Check and register' }).click();
    await page.getByRole('heading', { name: /Gate: my_rms_norm rejected by parse/ }).waitFor();
    const found = page.getByRole('list', { name: /^WGSL of the kernel for rms_norm: 1 finding$/ });
    const place = `${line}:${column}`;
    await found.getByRole('button', { name: new RegExp(`^${place}.*unable to parse`) }).click();
    // In the editor: only that line is marked, and the cursor is on it.
    const marked = page.locator('.cm-line', { has: page.locator('.cm-lintRange-error') });
    expect(await marked.allTextContents()).toEqual([wrong]);
    await expect.poll(() => page.locator('.cm-lintRange-error').textContent()).toBe(';');
    await expect.poll(() => page.locator('.cm-line.cm-activeLine').textContent()).toBe(wrong);
    await expect
      .poll(() => page.locator('.cm-lineNumbers .cm-activeLineGutter').textContent())
      .toBe(String(line));
    await page.getByRole('region', { name: 'Findings' }).getByRole('button', { name: place }).waitFor();
    await expect.poll(() => page.getByRole('button', { name: /^Bind my_rms_norm to/ }).count()).toBe(0);

    await rewriteLine(editor, line, lines, right);
    await editor.press('ControlOrMeta+Enter');
    await page.getByRole('heading', { name: 'Gate: my_rms_norm accepted' }).waitFor();
    await expect.poll(() => marked.count()).toBe(0);
    const stages = page.getByRole('list', { name: 'Stages of the gate' }).getByRole('listitem');
    for (const stage of await stages.allTextContents()) expect(stage).toMatch(/^\w+ passed/);
    await expect.poll(() => stages.count()).toBe(5);
    const strip = page.getByRole('img', { name: /^Error by case: 0 of \d+ above their limit/ });
    await strip.waitFor();
    const cases = page.getByRole('table', { name: 'Parity by case' }).locator('tbody tr');
    await expect.poll(() => cases.count()).toBeGreaterThan(3);
    for (const row of await cases.allTextContents()) expect(row).toMatch(/^passed/);

    await page.getByRole('button', { name: 'Profile', exact: true }).click();
    await page.getByText(/^live .*, subgroups of 32: /).waitFor();
    const profiled = page
      .getByRole('table', { name: 'A workgroup, and the built-in kernels' })
      .locator('tbody tr');
    expect((await profiled.allTextContents()).map((text) => /^[\w.]+?(?=\d)/.exec(text)?.[0])).toEqual([
      'my_rms_norm',
      'rms_norm.wgsl',
    ]);
    await page
      .getByRole('list', { name: /^WGSL of the kernel for rms_norm: / })
      .getByText(/read x, 4 bytes a lane/)
      .first()
      .waitFor();
    if (process.env['LATHE_SHOTS'])
      await page.screenshot({ path: `${process.env['LATHE_SHOTS']}/profile.png`, fullPage: true });

    await page.getByRole('button', { name: `Bind my_rms_norm to ${slot}` }).click();
    await page.getByText(`my_rms_norm runs ${slot} (4) now`).waitFor();
    expect(await bound()).toEqual([0, 1, 2, 3].map((layer) => `layers.${layer}.attn.norm my_rms_norm`));

    await page.getByRole('tab', { name: 'Graph' }).click();
    await page.getByLabel('Color by').selectOption('kernel');
    // The drawing says it, and so does the table.
    const normButton = page.getByRole('button', { name: /^attn\.norm/ });
    await expect.poll(() => normButton.textContent()).toContain('my_rms_norm');
    await page.getByRole('combobox', { name: /^View/ }).selectOption('table');
    const row = page.getByRole('table', { name: 'Layer 0' }).getByRole('row', { name: /^attn\.norm / });
    await row.getByText('lab: my_rms_norm').waitFor();

    // A link of a node leads to its op, and what was written is still there.
    await row.getByRole('button').click();
    await page.getByRole('link', { name: 'Write a kernel for rms_norm' }).click();
    await page.getByRole('heading', { name: 'Gate: my_rms_norm accepted' }).waitFor();
    await page.getByRole('button', { name: 'Unbind all' }).click();
    await page.getByText('All components run built-in kernels.').waitFor();
    expect(await bound()).toEqual([]);
    expect(faults()).toEqual([]);
    await close();
  });

  it('measures the bound kernels, and shows the ratio, its interval and the verdict', async () => {
    await register('measured');
    await bind('measured', slot);
    const { page, faults, close } = await host.view('lab/bench');
    await page.getByRole('table', { name: 'Bound kernels' }).getByText('measured').waitFor();
    await page.getByText('Bench options').click();
    await page.getByLabel('Rounds').fill('four');
    await page.getByText("Rounds: expected a whole number above 0, got 'four'").waitFor();
    for (const [name, value] of [
      ['Rounds', '4'],
      ['Prompt tokens', '16'],
      ['Decoded tokens per round', '4'],
      ['Contexts', '32'],
    ] as const)
      await page.getByLabel(name, { exact: true }).fill(value);
    await page.getByRole('button', { name: 'Run the bench' }).click();
    const figures = page.getByRole('table', { name: 'Tokens per second and ratios' });
    await figures.waitFor();
    const change = /[+−]\d+\.\d %/.source;
    const decode = figures.getByRole('row', { name: /^Decode at 32/ });
    await expect
      .poll(() => decode.textContent())
      .toMatch(new RegExp(`${change} \\(${change} to ${change}\\)`));
    await expect
      .poll(() => decode.textContent())
      .toMatch(/(?:Faster|Slower|No difference|Inconclusive|Suspect)$/);
    await page
      .getByText(new RegExp(`Decoding with measured: ${change} \\(95 % interval ${change} to ${change}`))
      .waitFor();
    const past = page.getByRole('table', { name: 'Benches' }).getByRole('row', { name: /measured/ });
    await expect.poll(() => past.textContent()).toMatch(new RegExp(`${change} to ${change}`));

    await page.getByRole('button', { name: 'Unbind measured' }).click();
    await page.getByText('No lab kernel is bound.').waitFor();
    expect(await bound()).toEqual([]);
    expect(faults()).toEqual([]);
    await close();
  });

  it('shows the history of a kernel with its benches, and opens an earlier source in the workbench', async () => {
    // The bench of the test before belongs to its registration.
    await register('measured', `${stub}\n// another`);
    const { page, faults, close } = await host.view('lab/kernels');
    await page.getByRole('link', { name: 'measured', exact: true }).click();
    const versions = page.getByRole('table', { name: 'Registrations of measured' }).locator('tbody > tr');
    await expect.poll(() => versions.count()).toBe(2);
    const changes = page.getByRole('region', { name: 'Differences between two sources of measured' });
    await expect.poll(() => changes.getByText('+// another').count()).toBe(1);
    await page.getByRole('img', { name: /^Decode ratio in 1 benches over time/ }).waitFor();
    await versions.nth(1).getByRole('link').first().click();
    await page.getByText('This is an earlier registration.').waitFor();
    await page.getByRole('button', { name: 'Edit in the workbench' }).click();
    const editor = page.getByRole('textbox', { name: 'WGSL of the kernel for rms_norm' });
    await editor.press('ControlOrMeta+End');
    await expect.poll(() => editor.textContent()).toMatch(/\}$/);
    expect(faults()).toEqual([]);
    await close();
  });

  it('saves the bindings as a config, lists it, and shows how two configs differ', async () => {
    await register('first');
    await register('second', stub.replace('override WG: u32 = 64;', 'override WG: u32 = 64; // mine'));
    await bind('first', slot);
    const { page, faults, close } = await host.view('lab/configs');
    const save = async (name: string) => {
      await page.getByLabel('Name', { exact: true }).fill(name);
      await page.getByRole('button', { name: 'Save', exact: true }).click();
      await page.getByText(`Saved as ${name}.`).waitFor();
    };
    await page.getByText(`first runs ${slot} (4)`).waitFor();
    await save('before');
    await page.getByRole('heading', { name: 'Validation valid on this host' }).waitFor();

    await bind('second', 'layers.0.attn.norm');
    await page.reload();
    await page.getByText('second runs layers.0.attn.norm').waitFor();
    await save('after');
    const names = page.getByRole('table', { name: 'All saved configs' });
    await names.getByRole('row', { name: /^before / }).waitFor();
    await names.getByRole('row', { name: /^after / }).waitFor();

    await page.getByLabel('Before', { exact: true }).selectOption('before');
    await page.getByLabel('After', { exact: true }).selectOption('after');
    const difference = page.getByRole('region', { name: 'Difference' });
    const lines = async () =>
      (await difference.locator('span').allTextContents()).filter((one) => /^[+-]/.test(one));
    await expect
      .poll(lines)
      .toEqual(
        expect.arrayContaining([
          '-layers.0.attn.norm = first',
          '+layers.0.attn.norm = second',
          '+kernel second',
          '+  | override WG: u32 = 64; // mine',
        ]),
      );
    await page.getByLabel('Before', { exact: true }).selectOption('current bindings');
    await page.getByText('Both bind the same kernels to the same components.').waitFor();
    // The URL holds the selection.
    await page.reload();
    await page.getByText('Both bind the same kernels to the same components.').waitFor();

    await host.send('DELETE', '/lab/v1/bindings');
    expect(faults()).toEqual([]);
    await close();
  });
});
