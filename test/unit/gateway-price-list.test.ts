import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { readPriceList } from '../../src/gateway/catalog/price-list.ts';
import { gatewayMain } from '../../src/gateway/cli/main.ts';

const folder = mkdtempSync(join(tmpdir(), 'lathe-prices-'));
afterAll(() => rmSync(folder, { recursive: true }));
const fileOf = (name: string, content: unknown) => {
  const path = join(folder, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
};

const modelsDev = {
  openai: {
    id: 'openai',
    env: ['OPENAI_API_KEY'],
    models: {
      'gpt-small': {
        id: 'gpt-small',
        name: 'GPT Small',
        reasoning: true,
        tool_call: true,
        modalities: { input: ['text', 'image'], output: ['text'] },
        cost: { input: 0.25, output: 2, cache_read: 0.025, context_over_200k: { input: 0.5 } },
        limit: { context: 400_000, output: 128_000 },
      },
      painter: { id: 'painter', modalities: { output: ['image'] }, cost: { input: 1, output: 1 }, limit: {} },
      unpriced: { id: 'unpriced', limit: { context: 10, output: 10 } },
      odd: { id: 'odd', cost: { input: -1, output: -1 }, limit: { context: 10, output: 10 } },
      broken: { id: 'broken', cost: { input: 'free' } },
    },
  },
};
const liteLlm = {
  sample_spec: { litellm_provider: 'one of the providers', max_tokens: 'LEGACY', mode: 'chat' },
  'gpt-small': {
    litellm_provider: 'openai',
    mode: 'chat',
    max_input_tokens: 400_000,
    max_output_tokens: 128_000,
    input_cost_per_token: 2.5e-7,
    output_cost_per_token: 2e-6,
    cache_read_input_token_cost: 2.5e-8,
    cache_creation_input_token_cost: 3.125e-7,
    cache_creation_input_token_cost_above_1hr: 5e-7,
    input_cost_per_token_above_272k_tokens: 5e-7,
    output_cost_per_token_above_272k_tokens: 3e-6,
    supports_function_calling: true,
    supports_prompt_caching: true,
  },
  'azure/gpt-small': {
    litellm_provider: 'azure',
    mode: 'chat',
    max_tokens: 10,
    input_cost_per_token: 1e-6,
    output_cost_per_token: 1e-6,
  },
  embed: {
    litellm_provider: 'openai',
    mode: 'embedding',
    max_input_tokens: 8191,
    input_cost_per_token: 2e-8,
    output_vector_size: 1536,
  },
};

const listed = (content: unknown) => {
  const list = readPriceList(JSON.stringify(content));
  if (typeof list === 'string') throw new Error(list);
  return list;
};

describe('a price list', () => {
  it('of models.dev has prices a million tokens', () => {
    const { models, faults } = listed(modelsDev);
    expect(models[0]).toEqual({
      provider: 'openai',
      id: 'gpt-small',
      name: 'GPT Small',
      contextWindow: 400_000,
      maxOutputTokens: 128_000,
      caps: ['chat', 'tools', 'images', 'reasoning', 'caching'],
      embeddingDimensions: undefined,
      card: {
        in_usd_per_mtok: '0.25',
        out_usd_per_mtok: '2',
        cache_read_usd_per_mtok: '0.025',
        long_context: {
          over: 200_000,
          in_usd_per_mtok: '0.5',
          out_usd_per_mtok: '2',
          cache_read_usd_per_mtok: '0.025',
        },
      },
    });
    expect(models.map(({ id, card }) => [id, card !== undefined])).toEqual([
      ['gpt-small', true],
      ['painter', true],
      ['unpriced', false],
      ['odd', false],
    ]);
    expect(faults).toEqual([
      'openai/odd: the price -1 must not be negative',
      expect.stringMatching(/^openai\/broken: cost\.input: /),
    ]);
  });

  it('of LiteLLM has prices a token', () => {
    const { models, faults } = listed(liteLlm);
    expect(faults).toEqual([]);
    expect(models.map(({ provider, id }) => `${provider} ${id}`)).toEqual([
      'openai gpt-small',
      'azure gpt-small',
      'openai embed',
    ]);
    expect(models[0]?.card).toEqual({
      in_usd_per_mtok: '0.25',
      out_usd_per_mtok: '2',
      cache_read_usd_per_mtok: '0.025',
      cache_write_usd_per_mtok: '0.3125',
      cache_write_1h_usd_per_mtok: '0.5',
      long_context: {
        over: 272_000,
        in_usd_per_mtok: '0.5',
        out_usd_per_mtok: '3',
        cache_read_usd_per_mtok: '0.025',
        cache_write_usd_per_mtok: '0.3125',
        cache_write_1h_usd_per_mtok: '0.5',
      },
    });
    expect(models[2]).toMatchObject({ caps: ['embeddings'], contextWindow: 8191, embeddingDimensions: 1536 });
  });

  it('of LiteLLM with several thresholds is imported with the lowest; the others are named', () => {
    const base = liteLlm['gpt-small'];
    const { models, faults } = listed({
      several: {
        ...base,
        input_cost_per_token_above_128k_tokens: 4e-7,
        input_cost_per_token_above_1000k_tokens: 9e-7,
        output_cost_per_token_above_1000k_tokens: 9e-6,
        input_cost_per_token_above_512k_tokens: null,
      },
      'azure/output': { ...liteLlm['azure/gpt-small'], output_cost_per_token_above_200k_tokens: 2e-6 },
      unpriced: { litellm_provider: 'openai', output_cost_per_token_above_200k_tokens: 2e-6 },
    });
    expect(models.map(({ card }) => card?.long_context)).toEqual([
      expect.objectContaining({ over: 128_000, in_usd_per_mtok: '0.4' }),
      undefined,
      undefined,
    ]);
    expect(faults).toEqual([
      'several: the prices above 272k, 1000k tokens are not imported; only those above 128k are',
      'azure/output: the prices above 200k tokens are not imported; they have none of input',
    ]);
  });

  it('of LiteLLM has tiers, tokens of audio and images, and calls of tools; a tier without all prices is left out', () => {
    const base = liteLlm['gpt-small'];
    const { models, faults } = listed({
      rich: {
        ...base,
        input_cost_per_audio_token: 3.2e-5,
        output_cost_per_audio_token: 6.4e-5,
        input_cost_per_image_token: 5e-6,
        output_cost_per_image_token: 4e-5,
        input_cost_per_token_flex: 1.25e-7,
        output_cost_per_token_flex: 1e-6,
        cache_read_input_token_cost_flex: 1.25e-8,
        input_cost_per_token_priority: 4.5e-7,
        output_cost_per_token_priority: 3.6e-6,
        input_cost_per_token_above_272k_tokens_priority: 9e-7,
        input_cost_per_token_batches: 1e-7,
        search_context_cost_per_query: {
          search_context_size_low: 0.01,
          search_context_size_medium: 0.025,
          search_context_size_high: null,
        },
        file_search_cost_per_1k_calls: 2.5,
        code_interpreter_cost_per_session: 0.03,
      },
      partial: {
        ...liteLlm['azure/gpt-small'],
        input_cost_per_token_flex: 5e-7,
        search_context_cost_per_query: 0.035,
      },
      odd: { ...liteLlm['azure/gpt-small'], code_interpreter_cost_per_session: -1 },
    });
    expect(models[0]?.card).toMatchObject({
      in_audio_usd_per_mtok: '32',
      out_audio_usd_per_mtok: '64',
      in_image_usd_per_mtok: '5',
      out_image_usd_per_mtok: '40',
      tiers: {
        flex: { in_usd_per_mtok: '0.125', out_usd_per_mtok: '1', cache_read_usd_per_mtok: '0.0125' },
        priority: {
          in_usd_per_mtok: '0.45',
          out_usd_per_mtok: '3.6',
          long_context: { over: 272_000, in_usd_per_mtok: '0.9', out_usd_per_mtok: '3.6' },
        },
      },
      hosted_tools: {
        web_search_usd_per_call: '0.025',
        file_search_usd_per_call: '0.0025',
        code_interpreter_usd_per_call: '0.03',
      },
    });
    expect(models[1]?.card).toEqual({
      in_usd_per_mtok: '1',
      out_usd_per_mtok: '1',
      hosted_tools: { web_search_usd_per_call: '0.035' },
    });
    expect(models[2]?.card).toBeUndefined();
    expect(faults).toEqual([
      'rich: the tier flex has no prices above 272k tokens; its others apply to inputs of any length',
      'odd: the price -1 must not be negative',
    ]);
  });

  it('of models.dev has tokens of audio', () => {
    const heard = { m: { cost: { input: 0.3, output: 2.5, input_audio: 1, output_audio: 12 } } };
    expect(listed({ google: { models: heard } }).models[0]?.card).toEqual({
      in_usd_per_mtok: '0.3',
      out_usd_per_mtok: '2.5',
      in_audio_usd_per_mtok: '1',
      out_audio_usd_per_mtok: '12',
    });
  });

  it('of another shape is refused', () => {
    for (const text of ['', '{', '[]', '{}', 'null', '{"a": 1}', '[{"models": {}}]'])
      expect(readPriceList(text)).toMatch(/not JSON|expected the JSON of models\.dev/);
  });

  it('keeps every price of up to six decimals exactly, a token or a million', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 10 }), (pico) => {
        const text = `${Math.floor(pico / 1e6)}.${String(pico % 1e6).padStart(6, '0')}`.replace(/\.?0*$/, '');
        const million = JSON.stringify(modelsDev).replaceAll('0.25,', `${text},`);
        const token = JSON.stringify(liteLlm).replace('2.5e-7,', `${pico}e-12,`);
        for (const list of [million, token]) {
          const read = readPriceList(list);
          expect(typeof read === 'string' ? read : read.models[0]?.card?.in_usd_per_mtok).toBe(text);
        }
      }),
    );
  });

  it('rounds the noise of a sum of doubles away', () => {
    const noisy = structuredClone(modelsDev);
    noisy.openai.models['gpt-small'].cost.input = 0.1 + 0.2;
    expect(listed(noisy).models[0]?.card?.in_usd_per_mtok).toBe('0.3');
  });
});

describe('the commands', () => {
  const head = `[[providers]]
id = "oai"
wire = "openai-chat"
base_url = "https://api.openai.com/v1"
api_key_env = "KEY"
`;
  const run = async (...args: string[]) => {
    let [out, err, code] = ['', '', 0];
    await gatewayMain({
      args,
      env: { KEY: 'sk-1234567890' },
      home: folder,
      version: () => Promise.resolve('0'),
      stdout: { write: (text) => void (out += text) },
      stderr: { write: (text) => void (err += text) },
      signals: { on: () => undefined },
      hasTerminal: true,
      exit: (status) => void (code = status),
      now: () => new Date(),
      serve: () => Promise.reject(new Error('not served')),
      openDatabase: () => Promise.reject(new Error('not opened')),
    });
    return { out, err, code };
  };

  it.each([
    ['models.dev', modelsDev],
    ['LiteLLM', liteLlm],
  ])(
    '`catalog import` prints tables of %s that the configuration takes, and `catalog diff` finds what changed',
    async (_, list) => {
      const prices = fileOf('prices.json', list);
      const imported = await run('catalog', 'import', prices, '--provider', 'openai', '--as', 'oai');
      expect(imported.code).toBe(0);
      const config = fileOf('gateway.toml', head + imported.out);
      const checked = await run('catalog', 'check', '--config', config, '--json');
      expect(checked).toMatchObject({ code: 0 });
      expect((JSON.parse(checked.out) as { models: { id: string }[] }).models[0]).toMatchObject({
        id: 'gpt-small',
        context_window: 400_000,
      });
      const compared = await run('catalog', 'diff', prices, '--config', config);
      expect(compared).toMatchObject({
        code: 0,
        out: expect.stringMatching(/^\d models? compared, no difference\n$/),
      });
      const other = fileOf('other.json', { x: { models: { y: { cost: { input: 1, output: 1 } } } } });
      expect(await run('catalog', 'diff', other, '--config', config)).toMatchObject({
        code: 1,
        err: expect.stringContaining('no model could be compared'),
      });
      writeFileSync(
        config,
        readFileSync(config, 'utf8').replace('in_usd_per_mtok = "0.25"', 'in_usd_per_mtok = "0.2"'),
      );
      const changed = await run('catalog', 'diff', prices, '--config', config);
      expect(changed.code).toBe(1);
      expect(changed.out).toContain('gpt-small  in_usd_per_mtok');
      expect(changed.err).toMatch(/^lathe: 1 model of \d differ from the list\n$/m);
    },
  );

  it('`catalog import` and `catalog diff` have tiers, audio and tools; what is not configured is not compared', async () => {
    const rich = {
      ...liteLlm['gpt-small'],
      input_cost_per_audio_token: 3.2e-5,
      input_cost_per_token_flex: 1.25e-7,
      output_cost_per_token_flex: 1e-6,
      file_search_cost_per_1k_calls: 2.5,
    };
    const prices = fileOf('rich.json', { 'gpt-small': rich });
    const imported = await run('catalog', 'import', prices, '--provider', 'openai', '--as', 'oai');
    const config = fileOf('rich.toml', head + imported.out);
    expect(await run('catalog', 'check', '--config', config)).toMatchObject({ code: 0 });
    expect(await run('catalog', 'diff', prices, '--config', config)).toMatchObject({ code: 0 });
    const changed = {
      ...rich,
      input_cost_per_audio_token: 1e-5,
      input_cost_per_token_flex: 2e-7,
      file_search_cost_per_1k_calls: 3,
    };
    const other = fileOf('changed.json', { 'gpt-small': changed });
    const { code, out } = await run('catalog', 'diff', other, '--config', config);
    expect(code).toBe(1);
    expect(out).toMatch(/in_audio_usd_per_mtok +32 +10$/m);
    expect(out).toMatch(/tiers\.flex\.in_usd_per_mtok +0\.125 +0\.2$/m);
    expect(out).toMatch(/hosted_tools\.file_search_usd_per_call +0\.0025 +0\.003$/m);
    const plain = await run(
      'catalog',
      'import',
      fileOf('plain.json', { 'gpt-small': liteLlm['gpt-small'] }),
      '--provider',
      'openai',
      '--as',
      'oai',
    );
    const bare = fileOf('bare.toml', head + plain.out);
    const compared = await run('catalog', 'diff', prices, '--config', bare);
    // Without a price of its own, audio would have that of text.
    expect(compared.out.match(/^gpt-small +\S+/gm)).toEqual([
      expect.stringContaining('in_audio_usd_per_mtok'),
    ]);
  });

  it('`catalog diff` compares every deployment of a model', async () => {
    const models = { m: { cost: { input: 1, output: 2 }, limit: { context: 1000, output: 100 } } };
    const dear = { m: { ...models.m, cost: { input: 50, output: 90 } } };
    const prices = fileOf('two.json', { east: { models }, west: { models: dear } });
    const providerOf = (id: string) => head.replace('"oai"', `"${id}"`);
    const deploymentOf = (provider: string) => `[[models.deployments]]\nprovider = "${provider}"\n`;
    const config = fileOf(
      'two.toml',
      `${providerOf('east')}${providerOf('west')}[[models]]
id = "m"
family = "openai"
caps = ["chat"]
context_window = 1000
max_output_tokens = 100
in_usd_per_mtok = "1"
out_usd_per_mtok = "2"
${deploymentOf('east')}${deploymentOf('west')}`,
    );
    const { code, out, err } = await run('catalog', 'diff', prices, '--config', config);
    expect(err).toContain('1 model of 2 differ');
    expect(code).toBe(1);
    expect(out).toMatch(/^m \(west\) +in_usd_per_mtok +1 +50$/m);
    expect(out).not.toContain('m (east)');
  });

  it('say what is wrong with a list, a provider and a model', async () => {
    const prices = fileOf('prices.json', modelsDev);
    expect(await run('catalog', 'import', join(folder, 'none'), '--provider', 'x')).toMatchObject({
      code: 2,
      err: expect.stringContaining('no such file'),
    });
    expect(await run('catalog', 'import', prices, '--provider', 'opnai')).toMatchObject({
      code: 2,
      err: expect.stringContaining("the list has no provider 'opnai'"),
    });
    expect(
      await run('catalog', 'import', prices, '--provider', 'openai', '--models', 'gpt-smal'),
    ).toMatchObject({
      code: 2,
      err: expect.stringMatching(/no model 'gpt-smal' in the list.*gpt-small/),
    });
    const { err, out } = await run('catalog', 'import', prices, '--provider', 'openai');
    expect(err).toContain('unpriced is left out: the list has no price');
    expect(err).toContain('painter is left out');
    expect(out.match(/\[\[models\]\]/g)).toHaveLength(1);
  });
});
