import { join } from 'node:path';
import type { TestBrowser } from '../test/support/browser.ts';
import { fillWorld, operatorToken, operatorWorld } from '../test/support/gateway/operator-world.ts';

/** Names of the pictures, and the paths of their views. */
const views: Readonly<Record<string, string>> = {
  'gateway-overview': '',
  'gateway-keys': 'keys',
  'gateway-key': 'keys/{key}',
  'gateway-accounts': 'accounts',
  'gateway-account': 'accounts/{account}',
  'gateway-usage': 'usage',
  'gateway-catalog': 'catalog',
  'gateway-model': 'catalog/gpt-5',
  'gateway-providers': 'providers',
  'gateway-receipts': 'receipts',
  'gateway-receipt': 'receipts/{request}',
  'gateway-changes': 'changes',
};

/**
 * Takes the pictures of the gateway's page, over a gateway with the keys, requests and usage of a team.
 * @param names views to take; empty: all
 */
export async function takeGatewayScreens(
  browser: TestBrowser,
  folder: string,
  names: readonly string[],
): Promise<void> {
  const chosen = Object.entries(views).filter(([name]) => names.length === 0 || names.includes(name));
  if (chosen.length === 0) return;
  const world = await operatorWorld();
  try {
    const { keys, requests } = await fillWorld(world);
    const { data } = await world.call<{ data: { id: string; name: string }[] }>('GET', '/accounts');
    const ids: Readonly<Record<string, string | undefined>> = {
      key: keys[2]?.id,
      account: data.find(({ name }) => name === 'support')?.id,
      request: requests[2]?.requestId,
    };
    for (const [name, path] of chosen) {
      const filled = path.replace(/\{(\w+)\}/g, (_, id: string) => ids[id] ?? '');
      for (const [width, dark] of [
        [1440, false],
        [1440, true],
        [360, false],
        [360, true],
      ] as const) {
        const { page, close } = await browser.page({ url: `${world.adminUrl}/${filled}`, width, dark });
        await page.getByLabel('Operator token').fill(operatorToken);
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('navigation').waitFor({ state: 'attached' });
        await page.waitForLoadState('networkidle');
        // Charts render shortly after the last response.
        await page.waitForTimeout(1200);
        if (await page.getByText('Something went wrong').count()) throw new Error(`${name} broke`);
        await page.screenshot({
          path: join(folder, `${name}-${width}-${dark ? 'dark' : 'light'}.jpg`),
          type: 'jpeg',
          quality: 72,
          fullPage: width > 400,
        });
        await close();
      }
      process.stdout.write(`${name}\n`);
    }
  } finally {
    await world.close();
  }
}
