import axe, { type AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

/**
 * What axe finds wrong on a page, as it is shown now: the rule and the elements.
 * @param impacts `serious`: what is at least serious; `all`: everything
 */
export async function accessibilityFaults(
  page: Page,
  impacts: 'serious' | 'all' = 'serious',
): Promise<string[]> {
  // Evaluated, not added as a script element, which the pages' policy forbids.
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<AxeResults>(
    'axe.run(document, { resultTypes: ["violations"] })',
  );
  return violations
    .filter(({ impact }) => impacts === 'all' || impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`);
}

/** The faults, and whether the page is wider than its window. */
export async function layoutFaults(page: Page, impacts?: 'serious' | 'all'): Promise<string[]> {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  return [...(await accessibilityFaults(page, impacts)), ...(wide > 0 ? [`${wide} px too wide`] : [])];
}
