import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { collectTexts, textsFile } from '../../scripts/texts.mjs';
import { repository } from '../support/host.ts';

it('lists every text of the pages for review; npm run texts writes the list', () => {
  expect(collectTexts()).toBe(readFileSync(join(repository, textsFile), 'utf8'));
});

it('finds texts of elements, attributes, constants and pages', () => {
  const lines = new Set(
    collectTexts()
      .split('\n')
      .map((line) => line.trim()),
  );
  // A text of an element, a label, a message of a table, a sentence in parts, a template, and the page itself.
  for (const text of [
    'New chat',
    'Keep chats in this browser',
    'Max tokens',
    'Update the graphics driver, turn on hardware acceleration in the browser settings, and restart the browser. chrome://gpu shows the reason in Chrome and Edge, about:support in Firefox.',
    '{} has no WebGPU on this platform.',
    'The demo runs a language model in this page, which needs JavaScript.',
    'Bearer token',
  ])
    expect(
      [...lines].some((line) => line.includes(text)),
      text,
    ).toBe(true);
});
