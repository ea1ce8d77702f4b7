import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkDocumentedTable } from '../support/compatibility/document.ts';
import { type LibraryFeature, libraryTable, placesOf } from '../support/libraries/checks.ts';
import { aiSdkLibraries } from '../support/libraries/ai-sdk.ts';
import { langchainLibraries } from '../support/libraries/langchain.ts';
import { llamaIndexLibraries } from '../support/libraries/llama-index.ts';
import { openaiAgentsLibraries } from '../support/libraries/openai-agents.ts';
import { openPlaces } from '../support/libraries/places.ts';
import { endPython, pythonLibraries } from '../support/libraries/python.ts';

// Each cell of the table of client libraries in docs/compatibility.md. `WRITE_TABLES=1` writes it.
const libraries = [
  ...aiSdkLibraries,
  ...langchainLibraries,
  ...llamaIndexLibraries,
  ...openaiAgentsLibraries,
  ...pythonLibraries,
];
let opened: Awaited<ReturnType<typeof openPlaces>>;
beforeAll(async () => {
  opened = await openPlaces();
});
afterAll(async () => {
  await endPython();
  const faults = await opened.faults();
  await opened.close();
  expect(faults).toEqual([]);
});

for (const library of libraries) {
  describe.skipIf(library.missing !== undefined)(library.name, () => {
    describe.each(library.places)('at the %s', (place) => {
      const features = Object.keys(library.checks) as LibraryFeature[];
      test.each(features.filter((feature) => placesOf(library, feature).includes(place)))(
        '%s',
        async (feature) => {
          await library.checks[feature]?.(opened.places[place]);
        },
      );
    });
  });
}

test('the table in docs/compatibility.md matches the tests', () => {
  for (const missing of new Set(libraries.map((library) => library.missing)))
    if (missing !== undefined) process.stderr.write(`${missing}\n`);
  checkDocumentedTable('libraries', libraryTable(libraries));
});
