/** Further names of models (`--alias`), on every wire. */
import { afterEach, describe, expect, test } from 'vitest';
import { modelEntry, modelList } from '../../src/wires/core/models-schema.ts';
import { startScriptedHost } from '../support/host.ts';
import { type Swapping, swappingHost } from '../support/swapping-host.ts';

type Host = Awaited<ReturnType<typeof swappingHost>>;
const hosts: Host[] = [];
async function serve(options: Swapping): Promise<Host> {
  const host = await swappingHost(options);
  hosts.push(host);
  return host;
}
afterEach(async () => {
  for (const host of hosts.splice(0)) {
    expect(host.faults).toEqual([]);
    await host.close();
  }
});

const messages = [{ role: 'user', content: 'hi' }];
/** A request of every wire that names a model. */
const requests: readonly [path: string, body: Readonly<Record<string, unknown>>][] = [
  ['/v1/chat/completions', { messages }],
  ['/v1/completions', { prompt: 'hi' }],
  ['/v1/responses', { input: 'hi' }],
  ['/v1/messages', { messages, max_tokens: 9 }],
  ['/v1/messages/count_tokens', { messages }],
  ['/api/chat', { messages, stream: false }],
  ['/api/generate', { prompt: 'hi', stream: false }],
  ['/completion', { prompt: 'hi' }],
  ['/apply-template', { messages }],
  ['/chat/completions', { messages }],
];
const modelOf = async (response: Response) => ((await response.json()) as { model?: string }).model;

describe('an alias of the resident model', () => {
  test('serves every wire; answers name the model itself, and those of Ollama the name that was asked for', async () => {
    const { post } = await serve({ models: { a: {} }, swap: false, aliases: { 'gpt-4o-mini': 'resident' } });
    for (const [path, body] of requests) {
      const response = await post(path, { model: 'gpt-4o-mini', ...body });
      const name = await modelOf(response);
      expect([path, response.status]).toEqual([path, 200]);
      if (name !== undefined)
        expect([path, name]).toEqual([path, path.startsWith('/api') ? 'gpt-4o-mini' : 'a']);
      expect([path, (await post(path, { model: 'gpt-4o', ...body })).status]).toEqual([path, 404]);
    }
    expect((await post('/api/chat', { model: 'gpt-4o-mini:latest', messages })).status).toBe(200);
  });

  test('is listed as an alias, after the models', async () => {
    const { get, post } = await serve({
      models: { a: {} },
      swap: false,
      aliases: { 'gpt-4o-mini': 'resident', 'claude-x': 'resident' },
    });
    for (const path of ['/v1/models', '/models']) {
      const { data } = modelList.parse(await (await get(path)).json());
      expect(data.map(({ id, alias_of: of }) => [id, of])).toEqual([
        ['a', undefined],
        ['gpt-4o-mini', 'a'],
        ['claude-x', 'a'],
      ]);
      expect(data[1]).toEqual({ ...data[0], id: 'gpt-4o-mini', display_name: 'gpt-4o-mini', alias_of: 'a' });
    }
    expect(modelEntry.parse(await (await get('/v1/models/claude-x')).json())).toMatchObject({
      id: 'claude-x',
      alias_of: 'a',
    });
    const tags = (await (await get('/api/tags')).json()) as { models: { name: string; details: object }[] };
    expect(tags.models.at(-1)).toMatchObject({
      name: 'claude-x:latest',
      model: 'claude-x:latest',
      details: { parent_model: 'a:latest' },
    });
    expect(tags.models.filter(({ name }) => name === 'gpt-4o-mini:latest')).toHaveLength(1);
    const deleted = await post('/api/delete', { model: 'gpt-4o-mini' }, { method: 'DELETE' });
    expect(deleted.status).toBe(404);
  });
});

test('with --swap an alias loads its model, is listed before, and always means the same one', async () => {
  const host = await serve({
    models: { a: {}, b: {} },
    aliases: { small: 'b', any: 'resident', tiny: 'lathe-tiny' },
  });
  const answer = async (model: string) =>
    modelOf(await host.post('/v1/chat/completions', { model, messages }));
  expect(await answer('any')).toBe('a');
  expect(host.loads).toEqual([]);
  expect(await answer('small')).toBe('b');
  expect(host.loads).toEqual(['/b']);
  expect(await answer('any')).toBe('b');
  expect(await answer('a')).toBe('a');
  const { data } = modelList.parse(await (await host.get('/v1/models')).json());
  expect(data.filter(({ alias_of: of }) => of !== undefined).map(({ id, alias_of: of }) => [id, of])).toEqual(
    [
      ['any', 'a'],
      ['tiny', 'lathe-tiny'],
    ],
  );
  const shown = await host.post('/api/show', { model: 'tiny' });
  expect(await shown.json()).toMatchObject({
    modelfile: expect.stringContaining('FROM lathe-tiny') as unknown,
  });
  const copied = await host.post('/api/copy', { source: 'tiny', destination: 'mine' });
  expect(copied.status).toBe(200);
});

describe('the host as a process', () => {
  test('serves the aliases of the command line', async () => {
    const host = startScriptedHost([
      '--gpu',
      '--port',
      '0',
      '--alias',
      'gpt-4o-mini=resident',
      '--alias=m=lathe-tiny',
    ]);
    const url = await host.url();
    const { data } = modelList.parse(await (await fetch(`${url}/v1/models`)).json());
    expect(data.map(({ id }) => id)).toEqual(['scripted', 'gpt-4o-mini', 'm']);
    await host.end();
  });

  test('refuses names that hide a model and models that are not there, all at once', async () => {
    const args = 'lathe-tiny=resident a=nope b=a c=lathe-tinny'
      .split(' ')
      .flatMap((alias) => ['--alias', alias]);
    const host = startScriptedHost(['--gpu', '--port', '0', ...args]);
    expect((await host.exit).code).toBe(2);
    expect(host.output.stderr.split('\n').slice(-6)).toEqual([
      "lathe: --alias lathe-tiny=resident: it would hide the stored model 'lathe-tiny'; choose another name",
      "lathe: --alias a=nope: there is no stored model 'nope'; expected one of: resident, lathe-tiny",
      "lathe: --alias b=a: 'a' is an alias itself; name its model",
      "lathe: --alias c=lathe-tinny: there is no stored model 'lathe-tinny' (did you mean 'lathe-tiny'?); expected one of: resident, lathe-tiny",
      'See: node dist/host.js --help',
      '',
    ]);
  });

  test('refuses the own id of the resident model, which is known once it is loaded', async () => {
    const host = startScriptedHost(['--gpu', '--port', '0', '--alias', 'scripted=resident']);
    expect((await host.exit).code).toBe(1);
    expect(host.output.stderr).toContain("--alias scripted: this is the resident model's own id");
  });
});
