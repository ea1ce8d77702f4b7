/** `--quantize` as a user runs it: a folder of Hugging Face, smaller on the adapter, answering. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';

const folder = fileURLToPath(new URL('../fixtures/architectures/qwen2/hf', import.meta.url));
beforeAll(buildHost);

describe('a folder of Hugging Face with --quantize q8_0', () => {
  let host: HostProcess;
  let url: string;
  beforeAll(async () => {
    host = startHost(['--gpu', '--port', '0', '--model', folder, '--quantize', 'q8_0']);
    url = await host.url();
  });
  afterAll(() => host.end());

  test('is what the ready line names', () => {
    expect(host.output.stdout).toMatch(/ready at \S+ - model \S+ \(qwen2, Q8_0, /);
  });

  test('is listed, and answers a completion', async () => {
    const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(models.data).toHaveLength(1);
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: models.data[0]?.id, prompt: 'The river', max_tokens: 8, temperature: 0 }),
    });
    expect(response.status).toBe(200);
    const { choices, usage } = (await response.json()) as {
      choices: { text: string; finish_reason: string }[];
      usage: { prompt_tokens: number; completion_tokens: number };
    };
    expect(choices).toEqual([expect.objectContaining({ finish_reason: 'length' })]);
    expect(choices[0]?.text).not.toBe('');
    expect(usage).toMatchObject({ completion_tokens: 8 });
  });
});
