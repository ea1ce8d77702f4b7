import { describe, test } from 'vitest';
import { checkDocumentedTable, writeTable } from '../support/compatibility/document.ts';
import { chatRows } from '../support/llama-cpp-promises/chat.ts';
import { completionRows } from '../support/llama-cpp-promises/completion.ts';
import { otherRouteRows } from '../support/llama-cpp-promises/other-routes.ts';
import { otherWireRows } from '../support/llama-cpp-promises/other-wires.ts';
import { askingWith } from '../support/llama-cpp-promises/row.ts';
import { scriptedServers } from '../support/serve.ts';

// What the tests of llama.cpp's server (tools/server/tests/unit) expect of any model, as checks of our own against a scripted
// engine. docs/compatibility.md lists them, and what does not apply here. `WRITE_TABLES=1` writes the list.
const rows = [...completionRows, ...chatRows, ...otherWireRows, ...otherRouteRows];
const asking = askingWith(scriptedServers());

describe("the tests of llama.cpp's server", () => {
  test.each(rows.filter(({ check }) => check !== undefined))('$tests: $promise', async ({ check }) => {
    await check?.(asking);
  });

  test('the table in docs/compatibility.md matches the tests', () => {
    checkDocumentedTable(
      'llama.cpp',
      writeTable([
        ['tests', 'what they expect', 'here'],
        ...rows.map(({ tests, promise, instead }) => [tests, promise, instead ?? 'yes']),
      ]),
    );
  });
});
