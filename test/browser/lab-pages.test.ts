/** Pages of registered kernels and of finished benches: their addresses, and what they show. */
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { layoutFaults } from '../support/accessibility.ts';
import { noBrowser } from '../support/browser.ts';
import { type Console, openConsole } from '../support/console.ts';
import { everyNth } from '../support/tier.ts';

const slot = 'layers.*.attn.norm';
const name = 'paged';
const scale = '    y[start + c] = x[start + c] * inverse_rms * norm_weight[c];';
const wrongScale = '    y[start + c] = x[start + c] * inverse_rms * norm_weight[c] * 1.5;';
const change = /[+−]\d+\.\d %/.source;

interface Versions {
  readonly versions: readonly { readonly at: string; readonly digest: string; readonly accepted: boolean }[];
}

describe.skipIf(noBrowser !== undefined)(`pages of the lab in a browser ${noBrowser ?? ''}`, () => {
  let host: Console;
  let stub: string;
  /** Newest first. */
  let versions: Versions['versions'];
  const wrong = () => stub.replace(scale, wrongScale);
  const last = () => `${stub}\n// the last registration`;

  const register = async (kernel: string, source: string) => {
    const body = { name: kernel, op: 'rms_norm', source, dispatch: { x: 'tokens' }, overrides: { WG: 64 } };
    return await host.send<{ accepted: boolean }>('POST', '/lab/v1/kernels', body);
  };

  beforeAll(async () => {
    host = await openConsole();
    const answer = await host.send<{ source: string }>('GET', '/lab/v1/ops/rms_norm/stub?target=plain');
    stub = answer.source;
    expect(wrong()).not.toBe(stub);
    expect(await register(name, stub)).toMatchObject({ accepted: true });
    expect(await register(name, wrong())).toMatchObject({ accepted: false });
    expect(await register(name, last())).toMatchObject({ accepted: true });
    expect(await register('never_passed', stub.replace('let start =', 'let start'))).toMatchObject({
      accepted: false,
    });
    ({ versions } = await host.send<Versions>('GET', `/lab/v1/kernels/${name}/versions`));
    expect(versions.map(({ accepted }) => accepted)).toEqual([true, false, true]);
  });
  afterAll(() => host?.end());

  const source = (page: Page) => page.getByRole('textbox', { name: /^Source of / });
  const report = (page: Page) => page.locator('#report');
  /** Moves to the end of a read-only editor, which renders only visible lines. */
  const endOf = async (page: Page) => {
    await source(page).click();
    await source(page).press('ControlOrMeta+End');
    return await source(page).textContent();
  };

  it('a kernel opens by its name: source, manifest, digest and the last report', async () => {
    const { page, faults, close } = await host.view(`lab/kernels/${name}`);
    await page.getByRole('heading', { name: `${name} accepted`, exact: true }).waitFor();
    await report(page)
      .getByRole('heading', { name: `Gate: ${name} accepted` })
      .waitFor();
    expect(await endOf(page)).toContain('// the last registration');
    await page.getByText('WG = 64', { exact: true }).waitFor();
    await page
      .getByText(versions[0]?.digest ?? '', { exact: true })
      .first()
      .waitFor();
    const rows = page.getByRole('table', { name: `Registrations of ${name}` }).locator('tbody > tr');
    await expect.poll(() => rows.count()).toBe(3);
    expect(await rows.nth(1).textContent()).toMatch(/rejected.*parity: \w+: .*\d/);
    expect(faults()).toEqual([]);
    await close();
  });

  it('an earlier registration opens by its time, also a rejected one, with its own source and report', async () => {
    const [, rejected, first] = versions;
    const opened = await host.view(`lab/kernels/${name}?version=${encodeURIComponent(rejected?.at ?? '')}`);
    await report(opened.page)
      .getByRole('heading', { name: `Gate: ${name} rejected by parity` })
      .waitFor();
    await opened.page.getByText('This is an earlier registration.').waitFor();
    expect(await opened.page.getByText(/^parity: \w+: .*\d.*Full report$/).count()).toBe(1);
    expect(await endOf(opened.page)).toContain(wrongScale.trim());
    await opened.close();
    const { page, faults, close } = await host.view(
      `lab/kernels/${name}?version=${encodeURIComponent(first?.at ?? '')}`,
    );
    await report(page)
      .getByRole('heading', { name: `Gate: ${name} accepted` })
      .waitFor();
    expect(await endOf(page)).not.toContain('1.5');
    expect(faults()).toEqual([]);
    await close();
  });

  it('a digest leads to its registration', async () => {
    const { page, faults, close } = await host.view(
      `lab/kernels/${encodeURIComponent(versions[1]?.digest ?? '')}`,
    );
    await report(page)
      .getByRole('heading', { name: `Gate: ${name} rejected by parity` })
      .waitFor();
    expect(await endOf(page)).toContain(wrongScale.trim());
    expect(faults()).toEqual([]);
    await close();
  });

  it('the difference of two registrations shows the changed line with its number, in both layouts', async () => {
    const [, rejected, first] = versions;
    const at = (one: Versions['versions'][number] | undefined) => encodeURIComponent(one?.at ?? '');
    const line = stub.split('\n').indexOf(scale) + 1;
    const { page, faults, close } = await host.view(
      `lab/kernels/${name}?before=${at(first)}&after=${at(rejected)}&layout=split`,
    );
    const lines = page
      .getByRole('region', { name: `Differences between two sources of ${name}` })
      .locator('tr');
    const changed = () =>
      lines.filter({ hasText: 'inverse_rms * norm_weight' }).locator('td').allTextContents();
    await expect.poll(changed).toEqual([`${line}`, `-${scale}`, `${line}`, `+${wrongScale}`]);
    await page.getByLabel('Layout').selectOption('unified');
    await expect.poll(changed).toEqual([`${line}`, '', `-${scale}`, '', `${line}`, `+${wrongScale}`]);
    await page.getByLabel('Before', { exact: true }).selectOption({ index: 0 });
    await expect.poll(() => lines.getByText('-// the last registration').count()).toBe(1);
    // The address has the selection.
    await page.reload();
    await expect.poll(() => lines.getByText('-// the last registration').count()).toBe(1);
    expect(faults()).toEqual([]);
    await close();
  });

  it('a rejected kernel says why in the list, and opens at its report', async () => {
    const { page, faults, close } = await host.view('lab/kernels');
    const row = page
      .getByRole('table', { name: 'Registered kernels' })
      .getByRole('row', { name: /^never_passed/ });
    await expect.poll(() => row.textContent()).toMatch(/rejectedparse: wgsl_error: .+ \(line \d+\)/);
    await row.getByRole('link', { name: 'Report of never_passed' }).click();
    await report(page).getByRole('heading', { name: 'Gate: never_passed rejected by parse' }).waitFor();
    await report(page).getByRole('table', { name: 'Findings' }).getByRole('button').first().click();
    // The finding's line is marked in the source that was kept.
    await expect.poll(() => page.locator('.cm-line.cm-activeLine').textContent()).toMatch(/let start token/);
    expect(faults()).toEqual([]);
    await close();
  });

  it('binds and unbinds from the page, and deletes after a confirmation; the history stays', async () => {
    const { page, faults, close } = await host.view(`lab/kernels/${name}`);
    await page.getByRole('button', { name: `Bind ${name} to ${slot}` }).click();
    const unbind = page.getByRole('button', { name: `Unbind ${name} from ${slot}` });
    await unbind.click();
    await page.getByText('no component', { exact: true }).waitFor();
    const { components } = await host.send<{ components: { kernel: string }[] }>('GET', '/lab/v1/parts');
    expect(components.some(({ kernel }) => kernel === name)).toBe(false);

    await page.goto(`${host.url}/console/lab/kernels/never_passed`);
    await page.getByRole('button', { name: 'Delete ...' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('table', { name: 'Registered kernels' }).waitFor();
    expect(await page.getByRole('link', { name: 'never_passed' }).count()).toBe(0);
    await page.goto(`${host.url}/console/lab/kernels/never_passed`);
    await page.getByText('The kernel was deleted.').waitFor();
    await source(page).waitFor();
    expect(faults()).toEqual([]);
    await close();
  });

  it('the address of an unknown kernel says so, and that of an op leads to its workbench', async () => {
    const unknown = await host.view('lab/kernels/none');
    await unknown.page.getByText('No kernel none was registered on this host.').waitFor();
    await unknown.close();
    const { page, close } = await host.view('lab/kernels/rms_norm');
    await page.getByRole('textbox', { name: 'WGSL of the kernel for rms_norm' }).waitFor();
    expect(new URL(page.url()).search).toBe('?op=rms_norm');
    await close();
  });

  it('two benches are in the history as a chart and a table, open by their addresses, and are compared', async () => {
    await host.send('POST', '/lab/v1/bindings', { kernel: name, components: [slot] });
    const request = { rounds: 6, prompt_tokens: 16, new_tokens: 4, contexts: [32] };
    await host.send('POST', '/lab/v1/bench', request);
    await host.send('POST', '/lab/v1/bench', { ...request, contexts: [32, 64] });
    await host.send('DELETE', '/lab/v1/bindings');
    const { page, faults, close } = await host.view(`lab/bench?kernel=${name}`);
    await page.getByRole('img', { name: /^Decode ratio in 2 benches over time/ }).waitFor();
    const rows = page.getByRole('table', { name: 'Benches, latest first' }).locator('tbody > tr');
    await expect.poll(() => rows.count()).toBe(2);
    for (const text of await rows.allTextContents())
      expect(text).toMatch(
        new RegExp(
          `${name} ${versions[0]?.digest.slice(7, 19)}(Faster|Slower|No difference|Inconclusive|Suspect)${change} \\(${change} to ${change}\\)`,
        ),
      );
    await page.getByLabel('Component', { exact: true }).last().selectOption(slot);
    await page.getByRole('img', { name: /^GPU time of layers\.\*\.attn\.norm/ }).waitFor();
    await expect.poll(() => rows.first().textContent()).toContain(name);

    for (const box of await page.getByRole('checkbox', { name: /^Compare the bench of/ }).all())
      await box.check();
    await page.getByRole('button', { name: 'Compare the two' }).click();
    const speeds = page.getByRole('table', { name: 'Speeds of A and B' });
    const speed = (row: string) => speeds.getByRole('row', { name: new RegExp(`^${row} `) }).textContent();
    await expect
      .poll(() => speed('Decode at 32'))
      .toMatch(
        new RegExp(
          `${change} \\(${change} to ${change}\\)(Faster|Slower|No difference|Inconclusive|Suspect)$`,
        ),
      );
    // The second bench has another context: the two are not the same over all contexts.
    expect(await speed('Decode at 64')).toMatch(/only in one$/);
    expect(await speed('Decode, all contexts')).toMatch(/not comparable$/);
    const settings = page.getByRole('table', { name: 'Settings of A and B' });
    expect(await settings.getByRole('row', { name: /^Contexts / }).textContent()).toBe(
      'Contexts3232, 64differs',
    );
    expect(await settings.getByRole('row', { name: /^Adapter / }).textContent()).toMatch(/same$/);
    await page.getByText('Only measurements that both have are compared.').waitFor();
    // The comparison and each bench have an address.
    await page.reload();
    await page
      .getByRole('link', { name: /^bench of/ })
      .first()
      .click();
    await page.getByRole('heading', { name: /^Bench of / }).waitFor();
    await page.getByText(new RegExp(`Decoding with ${name}: ${change}`)).waitFor();
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { name: `Benches of ${name}` }).waitFor();
    await expect.poll(() => rows.count()).toBe(2);
    expect(faults()).toEqual([]);
    await close();
  });

  describe.each([
    [1440, false],
    [360, true],
    [1440, true],
    [360, false],
  ])('%i px wide, dark: %s', (width, dark) => {
    it.each(everyNth(['kernel', 'rejected', 'list', 'bench', 'compare', 'history'] as const, 3))(
      'the page of kind %s has no serious accessibility violation and no horizontal overflow',
      async (kind) => {
        const { benches } = await host.send<{ benches: { id: string }[] }>('GET', '/lab/v1/benches');
        const [newest, oldest] = [benches[0]?.id ?? '', benches.at(-1)?.id ?? ''];
        const path = {
          kernel: `lab/kernels/${name}`,
          rejected: `lab/kernels/${encodeURIComponent(versions[1]?.digest ?? '')}`,
          list: 'lab/kernels',
          bench: `lab/bench/${newest}`,
          compare: `lab/bench/compare?a=${oldest}&b=${newest}`,
          history: 'lab/bench',
        }[kind];
        const { page, idle, faults, close } = await host.view(path, { width, dark });
        await page.getByRole('heading', { level: 2 }).first().waitFor();
        await idle();
        const found = await layoutFaults(page);
        const folder = process.env['LATHE_SHOTS'];
        if (folder)
          await page.screenshot({
            path: join(folder, `${kind}-${width}-${dark ? 'dark' : 'light'}.png`),
            fullPage: true,
          });
        expect(found).toEqual([]);
        expect(faults()).toEqual([]);
        await close();
      },
    );
  });

  it('opens the same addresses after a restart of the host', async () => {
    const { dataDir } = host;
    await host.end();
    host = await openConsole({ dataDir });
    const { page, faults, close } = await host.view(
      `lab/kernels/${name}?version=${encodeURIComponent(versions[1]?.at ?? '')}`,
    );
    await report(page)
      .getByRole('heading', { name: `Gate: ${name} rejected by parity` })
      .waitFor();
    expect(await endOf(page)).toContain(wrongScale.trim());
    await page.goto(`${host.url}/console/lab/bench`);
    const rows = page.getByRole('table', { name: 'Benches, latest first' }).locator('tbody > tr');
    await expect.poll(() => rows.count()).toBe(2);
    expect(faults()).toEqual([]);
    await close();
  });
});
