import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { aiSdkClients } from '../support/compatibility/ai-sdk.ts';
import { anthropic } from '../support/compatibility/anthropic.ts';
import { checkDocumentedTable } from '../support/compatibility/document.ts';
import { type Feature, features, type Places, table } from '../support/compatibility/features.ts';
import { llamaCpp } from '../support/compatibility/llama-cpp.ts';
import { ollamaChat, ollamaGenerate } from '../support/compatibility/ollama.ts';
import { openaiChat, openaiCompletions, openaiResponses } from '../support/compatibility/openai.ts';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';

// Each cell of the table in docs/compatibility.md that says yes, against the built host. `WRITE_TABLES=1` writes it.
const clients = [
  openaiChat,
  openaiResponses,
  openaiCompletions,
  anthropic,
  ...aiSdkClients,
  ollamaChat,
  ollamaGenerate,
  llamaCpp,
];
const embedder = fileURLToPath(new URL('../fixtures/architectures/qwen3-embedding/hf', import.meta.url));
const hosts: HostProcess[] = [];
let places: Places;

beforeAll(async () => {
  buildHost();
  hosts.push(startHost(['--gpu', '--port', '0']), startHost(['--gpu', '--port', '0', '--model', embedder]));
  const [url = '', embedding = ''] = await Promise.all(hosts.map((host) => host.url()));
  places = { url, embedder: embedding };
});
afterAll(async () => {
  await Promise.all(hosts.map((host) => host.end()));
});

for (const { name, checks } of clients) {
  describe(name, () => {
    test.each(Object.keys(features).filter((feature) => feature in checks) as Feature[])(
      '%s',
      async (feature) => {
        await checks[feature]?.(places);
      },
    );
  });
}

test('the table in docs/compatibility.md matches the tests', () => {
  checkDocumentedTable('table', table(clients));
});
